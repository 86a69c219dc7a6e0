// Package memory provides the backend of a store that keeps everything in RAM, outside
// the Go heap and under a hard limit. Nothing survives the process.
//
// Put copies a small object into the arena. Stage makes a large object of two sparse
// files in RAM, which Publish adds to the visible objects. An open file keeps its bytes
// in the arena until it is closed, even after the object is removed. Since nothing
// waits for a disk, a deferred object is visible at once and Flush does nothing.
package memory
