package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Kind says what a record is about.
type Kind string

// The kinds of records.
const (
	Begin      Kind = "begin"      // the first record of a file; without it, the beginning was cut off
	Start      Kind = "start"      // the node began to write
	Stop       Kind = "stop"       // the node stopped in good order
	Mutation   Kind = "mutation"   // the node is about to change something
	Outcome    Kind = "outcome"    // how the mutation with the number Of ended
	Refusal    Kind = "refusal"    // the node refused a request of this client
	Suppressed Kind = "suppressed" // Count records were left out or lost
	Cut        Kind = "cut"        // Bytes of a record that a crash left unfinished were cut off
	Damaged    Kind = "damaged"    // the files before this one do not match the head file
)

func (k Kind) known() bool {
	switch k {
	case Begin, Start, Stop, Mutation, Outcome, Refusal, Suppressed, Cut, Damaged:
		return true
	}
	return false
}

// Event is the content of a record. Empty members are left out. Text of more than
// 256 bytes is cut.
type Event struct {
	Kind    Kind   `json:"kind"`
	Actor   string `json:"actor,omitempty"`  // id of the capability, or "uid:1000" of the Unix socket
	Branch  string `json:"branch,omitempty"` // branch of the capability that the client sent
	Addr    string `json:"addr,omitempty"`   // the client's whole address
	Method  string `json:"method,omitempty"`
	Route   string `json:"route,omitempty"`
	Op      string `json:"op,omitempty"` // operation that the capability must allow
	Object  string `json:"object,omitempty"`
	Name    string `json:"name,omitempty"`
	Label   string `json:"label,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"` // length of the request's body, if known; for Cut, what was cut off
	Count   uint64 `json:"count,omitempty"`
	Of      uint64 `json:"of,omitempty"`
	CorrID  string `json:"corr_id,omitempty"`
	Detail  string `json:"detail,omitempty"`

	// Frees says that the mutation frees disk space or ends the node. Such an event
	// may use the ballast of the log when the disk is full. Frees is not written.
	Frees bool `json:"-"`
}

// Record is one line of a log.
type Record struct {
	Seq  uint64    `json:"seq"` // from 1, without a gap
	Time time.Time `json:"time"`
	Event
	Prev string `json:"prev"` // BLAKE3 of the line before, in hex; zeros in the first record
}

const (
	maxText = 256      // bytes of a text member
	maxLine = 32 << 10 // bytes of a line; a record whose members are all full and escaped has less
)

// clip cuts a text to maxText bytes and replaces what is not UTF-8.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText-len("…")]
		s = strings.ToValidUTF8(s, "") + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// clipped returns e with all its texts clipped.
func (e Event) clipped() Event {
	for _, s := range []*string{
		&e.Actor, &e.Branch, &e.Addr, &e.Method, &e.Route, &e.Op, &e.Object, &e.Name, &e.Label, &e.Outcome, &e.CorrID,
		&e.Detail,
	} {
		*s = clip(*s)
	}
	return e
}

// line encodes a record without its newline.
func (r Record) line() ([]byte, error) {
	p, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("audit: encode a record: %w", err)
	}
	return p, nil
}

// parse reads one line, without its newline. A record has exactly one encoding. A
// line that does not encode to the same bytes again is corrupt.
func parse(line []byte) (Record, error) {
	var r Record
	if len(line) > maxLine {
		return r, status.Errorf(status.Corrupt, "it has more than %d bytes", maxLine)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, status.Errorf(status.Corrupt, "it is not a record: %w", err)
	}
	again, err := r.line()
	if err != nil || !bytes.Equal(again, line) {
		return r, status.Errorf(status.Corrupt, "it is not as a node writes a record")
	}
	if !r.Kind.known() {
		return r, status.Errorf(status.Corrupt, "kind %q is unknown", r.Kind)
	}
	if r.Seq == 0 {
		return r, status.Errorf(status.Corrupt, "a record cannot have number 0")
	}
	return r, nil
}

// follows returns corrupt if r is not the record after the one with seq and hash.
func (r Record) follows(seq uint64, hash b3.Root) error {
	switch {
	case r.Seq != seq+1:
		return status.Errorf(status.Corrupt,
			"it is record %d and should be %d: records were removed, repeated or moved",
			r.Seq, seq+1)
	case r.Prev != hash.Hex():
		return status.Errorf(status.Corrupt, "it names another record before it than there is: that one, or this, was "+
			"changed")
	}
	return nil
}
