//go:build !race

package simnet

const raceDetector = false
