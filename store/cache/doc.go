// Package cache keeps what is read often at hand: small verified objects in RAM,
// and the open files of large ones. It decides nothing: who removes or marks an
// object drops it here.
package cache
