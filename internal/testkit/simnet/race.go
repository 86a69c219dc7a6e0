//go:build race

package simnet

const raceDetector = true
