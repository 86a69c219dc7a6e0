// Package record is the format of a segment of the log: its header, its records,
// and a reader that goes on behind what is damaged. It knows nothing of the log or
// of what a record means for it. FORMAT.md says a segment byte by byte.
package record
