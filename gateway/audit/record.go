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
	Begin      Kind = "begin"      // the first record of a file, so that its beginning cannot be cut off
	Start      Kind = "start"      // the node began to write
	Stop       Kind = "stop"       // it ended in good order
	Mutation   Kind = "mutation"   // it is about to change something
	Outcome    Kind = "outcome"    // how the mutation with the number Of ended
	Refusal    Kind = "refusal"    // it was asked for what it does not do for this client
	Suppressed Kind = "suppressed" // Count records of refusals were left out
	Cut        Kind = "cut"        // Bytes of a record that a crash left unfinished were cut off
	Damaged    Kind = "damaged"    // the files before this one are not as the head file says
)

func (k Kind) known() bool {
	switch k {
	case Begin, Start, Stop, Mutation, Outcome, Refusal, Suppressed, Cut, Damaged:
		return true
	}
	return false
}

// Event is what is recorded. Empty members are left out. Text is cut to 256
// bytes.
type Event struct {
	Kind    Kind   `json:"kind"`
	Actor   string `json:"actor,omitempty"`  // id of the capability, or "uid:1000" of the Unix socket
	Branch  string `json:"branch,omitempty"` // of the capability, as it was shown
	Addr    string `json:"addr,omitempty"`   // of the client, whole
	Method  string `json:"method,omitempty"`
	Route   string `json:"route,omitempty"`
	Op      string `json:"op,omitempty"` // of the capability that it takes
	Object  string `json:"object,omitempty"`
	Name    string `json:"name,omitempty"`
	Label   string `json:"label,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"` // of the request's body, as far as known
	Count   uint64 `json:"count,omitempty"`
	Of      uint64 `json:"of,omitempty"`
	CorrID  string `json:"corr_id,omitempty"`
	Detail  string `json:"detail,omitempty"`

	// Frees says that what is recorded gives space back or ends the node: its
	// record finds room on a full disk, where others are refused. It is not
	// written.
	Frees bool `json:"-"`
}

// Record is one line of a log.
type Record struct {
	Seq  uint64    `json:"seq"` // from 1, without a gap
	Time time.Time `json:"time"`
	Event
	Prev string `json:"prev"` // BLAKE3 of the line before, in hex; zeros in the first
}

const (
	maxText = 256      // bytes of a member
	maxLine = 32 << 10 // bytes of a line; a record of full members, all escaped, has less
)

// clip bounds a member and keeps it UTF-8.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText-len("…")]
		s = strings.ToValidUTF8(s, "") + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// clipped is e within its bounds.
func (e Event) clipped() Event {
	for _, s := range []*string{&e.Actor, &e.Branch, &e.Addr, &e.Method, &e.Route, &e.Op, &e.Object, &e.Name, &e.Label, &e.Outcome, &e.CorrID, &e.Detail} {
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

// parse reads one line, without its newline. A line has one form: what does
// not encode to the same bytes again is corrupt.
func parse(line []byte) (Record, error) {
	var r Record
	if len(line) > maxLine {
		return r, status.Errorf(status.Corrupt, "it has more than %d bytes", maxLine)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, status.Errorf(status.Corrupt, "it is no record: %w", err)
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

// follows says why r cannot come after the record (seq, hash).
func (r Record) follows(seq uint64, hash b3.Root) error {
	switch {
	case r.Seq != seq+1:
		return status.Errorf(status.Corrupt, "it is record %d and should be %d: records were removed, repeated or moved", r.Seq, seq+1)
	case r.Prev != hash.Hex():
		return status.Errorf(status.Corrupt, "it names another record before it than there is: that one, or this, was changed")
	}
	return nil
}
