package object

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Operations of OAP1.md §9.
const (
	opGet  = "get"
	opHave = "have"
)

// common are the members that every request may carry (OAP1.md §5).
type common struct {
	Op          string `json:"op"`
	DeadlineMS  int64  `json:"deadline_ms,omitzero"`
	Traceparent string `json:"traceparent,omitzero"`
}

// wireGet is the payload of a get.
type wireGet struct {
	common
	Objs      []b3.Root  `json:"objs"`
	Ranges    [][2]int64 `json:"ranges,omitzero"`
	SizeProof bool       `json:"size_proof,omitzero"`
}

// wireHave is the payload of a have.
type wireHave struct {
	common
	Objs []b3.Root `json:"objs"`
}

// wireStart is the payload of an object's RESP|START.
type wireStart struct {
	Obj  b3.Root `json:"obj"`
	Size int64   `json:"size"`
}

// query is what is asked, decoded and checked.
type query struct {
	op        string
	objs      []b3.Root
	ranges    []b3.Range
	sizeProof bool
	budget    time.Duration // the asker's deadline_ms; 0: none
}

// decodeQuery reads the payload of a REQ|START|END frame. An unknown op is
// unsupported, whatever else the payload holds.
func decodeQuery(p []byte) (query, error) {
	var c common
	if err := oap.DecodeJSON(p, &c, true); err != nil {
		return query{}, err
	}
	switch c.Op {
	case opGet:
		return decodeGet(p)
	case opHave:
		var w wireHave
		if err := oap.DecodeJSON(p, &w, false); err != nil {
			return query{}, err
		}
		return newQuery(w.common, w.Objs, MaxHave)
	}
	return query{}, status.Errorf(status.Unsupported, "object: op %q is not served here", clip(c.Op))
}

func decodeGet(p []byte) (query, error) {
	var w wireGet
	if err := oap.DecodeJSON(p, &w, false); err != nil {
		return query{}, err
	}
	r, err := newQuery(w.common, w.Objs, MaxGet)
	if err != nil {
		return query{}, err
	}
	if len(w.Ranges) > 0 && len(w.Objs) != 1 {
		return query{}, status.Errorf(status.BadRequest, "object: ranges with %d objects, want one", len(w.Objs))
	}
	for _, p := range w.Ranges {
		r.ranges = append(r.ranges, b3.Range{Start: p[0], End: p[1]})
	}
	r.sizeProof = w.SizeProof
	return r, checkRanges(r.ranges)
}

func newQuery(c common, objs []b3.Root, most int) (query, error) {
	if len(objs) == 0 || len(objs) > most {
		return query{}, status.Errorf(status.BadRequest, "object: %s of %d objects, want 1 to %d", c.Op, len(objs), most)
	}
	if c.DeadlineMS < 0 {
		return query{}, status.Errorf(status.BadRequest, "object: deadline_ms is %d", c.DeadlineMS)
	}
	const most64 = math.MaxInt64 / int64(time.Millisecond)
	return query{op: c.Op, objs: objs, budget: time.Duration(min(c.DeadlineMS, most64)) * time.Millisecond}, nil
}

// checkRanges refuses what b3.NewWalk would, before any object is opened.
func checkRanges(ranges []b3.Range) error {
	_, err := b3.NewWalk(b3.Root{}, 0, ranges)
	return err
}

// encode returns the payload of w.
func encode(w any) ([]byte, error) {
	p, err := json.Marshal(w)
	if err != nil {
		return nil, status.Errorf(status.Internal, "object: encode request: %w", err)
	}
	return p, nil
}

// appendStart appends the payload of an object's RESP|START.
func appendStart(dst []byte, root b3.Root, size int64) []byte {
	dst = append(dst, `{"obj":"b3:`...)
	for _, c := range root {
		const digits = "0123456789abcdef"
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	dst = append(dst, `","size":`...)
	return append(strconv.AppendInt(dst, size, 10), '}')
}

// clip bounds what of a peer's text is repeated, and takes out what a terminal
// would act on.
func clip(s string) string {
	const most = 256
	out := make([]rune, 0, min(len(s), most))
	for _, r := range s {
		if len(out) == most {
			return string(out) + "…"
		}
		if !strconv.IsPrint(r) {
			r = '·'
		}
		out = append(out, r)
	}
	return string(out)
}
