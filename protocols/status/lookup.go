package status

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
)

// LookupID names one lookup of a key by one node, in its log lines, its errors and the record that
// `allium why` shows. IDs are random, so an ID from before a restart names nothing. The zero value
// names no lookup.
type LookupID uint64

// NewLookupID returns a random ID. It allocates nothing.
func NewLookupID() LookupID { return LookupID(max(1, rand.Uint64())) }

// String returns 16 hex digits, or the empty string for the zero value.
func (id LookupID) String() string {
	if id == 0 {
		return ""
	}
	var b [8]byte
	for i := range b {
		b[i] = byte(id >> (56 - 8*i))
	}
	var digits [16]byte
	return string(hex.AppendEncode(digits[:0], b[:]))
}

// ParseLookupID returns the ID that String wrote. ok is false for any other text.
func ParseLookupID(s string) (id LookupID, ok bool) {
	if len(s) != 16 {
		return 0, false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9':
			id = id<<4 | LookupID(c-'0')
		case 'a' <= c && c <= 'f':
			id = id<<4 | LookupID(c-'a'+10)
		default:
			return 0, false
		}
	}
	return id, id != 0
}

// parentKey is the key of the lookup in a context.
type parentKey struct{}

// WithParent returns a copy of ctx for work that the lookup id led to: the lookups that begin under it
// are recorded as parts of that one. It returns ctx itself for the zero ID.
func WithParent(ctx context.Context, id LookupID) context.Context {
	if id == 0 {
		return ctx
	}
	return context.WithValue(ctx, parentKey{}, id)
}

// ParentOf returns the ID that WithParent put into ctx, or zero.
func ParentOf(ctx context.Context) LookupID {
	id, _ := ctx.Value(parentKey{}).(LookupID)
	return id
}

// lookupError adds the ID of a lookup to an error and changes nothing else.
type lookupError struct {
	err error
	id  LookupID
}

// Error returns the text of the error itself.
func (e *lookupError) Error() string { return e.err.Error() }

// Unwrap returns the error itself.
func (e *lookupError) Unwrap() error { return e.err }

// WithLookup returns err with the ID of the lookup that failed, which [ReportOf] reports. The text,
// the outcome and the chain of err stay. An err that names a lookup already, and nil, are returned
// as they are.
func WithLookup(err error, id LookupID) error {
	if err == nil || id == 0 || LookupOf(err) != "" {
		return err
	}
	return &lookupError{err, id}
}

// LookupOf returns the ID of the lookup that failed with err, or the empty string. An error that
// another node reported may have an ID of that node.
func LookupOf(err error) string {
	var e *Error
	if errors.As(err, &e) && e.LookupID != "" {
		return e.LookupID
	}
	var l *lookupError
	if errors.As(err, &l) {
		return l.id.String()
	}
	return ""
}
