// Package memory is the backend of a store that keeps everything in RAM, outside
// the Go heap and under a hard cap. Nothing survives the process.
package memory
