// Package files here break the layer rule on purpose: `make lint` proves that
// depguard finds each of them.
module allium

go 1.26.0
