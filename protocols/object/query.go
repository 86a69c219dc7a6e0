package object

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// The operations of OAP1.md §9.
const (
	opGet  = "get"
	opHave = "have"
	opPut  = "put"
)

// common has the members that every request may have (OAP1.md §5).
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
	Objs   []b3.Root `json:"objs"`
	Groups *[2]int64 `json:"groups,omitzero"` // of one object: which of [from, to) the receiver has
}

// wirePut is the payload of a put: of one object, or of many small ones.
type wirePut struct {
	common
	Obj   b3.Root   `json:"obj,omitzero"`
	Size  *int64    `json:"size,omitzero"`
	Objs  []b3.Root `json:"objs,omitzero"`
	Sizes []int64   `json:"sizes,omitzero"`

	// In the place of Objs; text is rawText.
	Roots string `json:"roots,omitzero"` // the addresses of all objects, one after the other
	About string `json:"about,omitzero"` // what the sender says of them
}

// wireGroups is the payload of the RESP|START of a put of one object: what the receiver has.
type wireGroups struct {
	Have [][2]int64 `json:"have"`
}

// wireStored is the payload of the last frame of a put of one object.
type wireStored struct {
	Stored bool `json:"stored"`
}

// wireStart is the payload of an object's RESP|START.
type wireStart struct {
	Obj  b3.Root `json:"obj"`
	Size int64   `json:"size"`
}

// query is a decoded and checked request payload.
type query struct {
	op        string
	objs      []b3.Root
	ranges    []b3.Range
	sizeProof bool
	sizes     []int64       // of a put: the claimed size of each object in bytes
	groups    [2]int64      // of a have: the groups [from, to) to answer for; empty: none
	many      bool          // a put of many small objects
	about     []byte        // of a put: what the peer says of the objects; nil: nothing
	repair    bool          // nobody waits for the put
	timeout   time.Duration // the request's deadline_ms; 0: none
	trace     string        // the request's traceparent; may be empty or anything
}

// decodeQuery decodes the payload of a REQ|START|END frame. An unknown op is
// unsupported, for any other content of the payload.
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
		r, err := newQuery(w.common, w.Objs, MaxHave)
		if err != nil || w.Groups == nil {
			return r, err
		}
		r.groups = *w.Groups
		if from, to := r.groups[0], r.groups[1]; len(r.objs) != 1 || from < 0 || to <= from || to-from > MaxGroups {
			return query{}, status.Errorf(status.BadRequest,
				"have of groups %d to %d of %d objects, want at most %d of one", from, to, len(r.objs), MaxGroups)
		}
		return r, nil
	case opPut:
		return decodePut(p)
	}
	return query{}, status.Errorf(status.Unsupported, "op %q is not served here", clip(c.Op))
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
		return query{}, status.Errorf(status.BadRequest, "ranges with %d objects, want one", len(w.Objs))
	}
	for _, p := range w.Ranges {
		r.ranges = append(r.ranges, b3.Range{Start: p[0], End: p[1]})
	}
	r.sizeProof = w.SizeProof
	return r, checkRanges(r.ranges)
}

func decodePut(p []byte) (query, error) {
	var w wirePut
	if err := oap.DecodeJSON(p, &w, false); err != nil {
		return query{}, err
	}
	if w.Roots != "" || w.About != "" {
		return decodeTold(w)
	}
	one := w.Size != nil
	largest := int64(MaxObject)
	switch {
	case one == w.Obj.IsZero(), one && (w.Objs != nil || w.Sizes != nil):
		return query{}, status.Errorf(status.BadRequest, "a put has obj and size, or objs and sizes")
	case one:
		w.Objs, w.Sizes = []b3.Root{w.Obj}, []int64{*w.Size}
	case len(w.Sizes) != len(w.Objs):
		return query{}, status.Errorf(status.BadRequest, "a put of %d objects has %d sizes", len(w.Objs), len(w.Sizes))
	default:
		largest = b3.GroupSize
	}
	r, err := newQuery(w.common, w.Objs, MaxPut)
	if err != nil {
		return query{}, err
	}
	r.sizes, r.many = w.Sizes, !one
	return r, r.checkSizes(largest)
}

// checkSizes returns bad_request if an object of a put is larger than so many bytes.
func (q *query) checkSizes(largest int64) error {
	for i, size := range q.sizes {
		if size < 0 || size > largest {
			return status.Errorf(status.BadRequest,
				"a put of %s with %d bytes, want 0 to %d", q.objs[i], size, largest)
		}
	}
	return nil
}

// rawText is the encoding of bytes in JSON.
var rawText = base64.RawURLEncoding.Strict()

// decodeTold decodes a put of many small objects that says something of them.
func decodeTold(w wirePut) (query, error) {
	roots, err := rawText.DecodeString(w.Roots)
	if err == nil && len(roots) != len(w.Sizes)*b3.Size {
		err = fmt.Errorf("%d bytes of addresses of %d objects", len(roots), len(w.Sizes))
	}
	var about []byte
	if err == nil {
		about, err = rawText.DecodeString(w.About)
	}
	switch {
	case err != nil:
		return query{}, status.Errorf(status.BadRequest, "a put has malformed roots, sizes or about: %w", err)
	case w.Size != nil || !w.Obj.IsZero() || w.Objs != nil:
		return query{}, status.Errorf(status.BadRequest, "a put with roots has neither obj, size nor objs")
	case len(about) < 1 || len(about) > MaxAbout:
		return query{}, status.Errorf(status.BadRequest, "about has %d bytes, want 1 to %d", len(about), MaxAbout)
	}
	objs := make([]b3.Root, 0, len(w.Sizes))
	for root := range slices.Chunk(roots, b3.Size) {
		objs = append(objs, b3.Root(root))
	}
	r, err := newQuery(w.common, objs, MaxTold)
	if err != nil {
		return query{}, err
	}
	r.sizes, r.many, r.about = w.Sizes, true, about
	if err := r.checkSizes(b3.GroupSize); err != nil {
		return query{}, err
	}
	if sum := (&Offer{Sizes: r.sizes}).Bytes(); sum > MaxToldBytes {
		return query{}, status.Errorf(status.BadRequest, "the objects have %d bytes, at most %d", sum, MaxToldBytes)
	}
	return r, nil
}

// newQuery checks the members that requests share. It allows 1 to maxObjs
// objects.
func newQuery(c common, objs []b3.Root, maxObjs int) (query, error) {
	if len(objs) == 0 || len(objs) > maxObjs {
		return query{}, status.Errorf(status.BadRequest, "%s of %d objects, want 1 to %d", c.Op, len(objs), maxObjs)
	}
	if c.DeadlineMS < 0 {
		return query{}, status.Errorf(status.BadRequest, "deadline_ms is %d", c.DeadlineMS)
	}
	const maxMS = math.MaxInt64 / int64(time.Millisecond)
	return query{
		op: c.Op, objs: objs, timeout: time.Duration(min(c.DeadlineMS, maxMS)) * time.Millisecond, trace: c.Traceparent,
	}, nil
}

// checkRanges returns the error of b3.NewWalk for malformed ranges. It needs no
// object.
func checkRanges(ranges []b3.Range) error {
	_, err := b3.NewWalk(b3.Root{}, 0, ranges)
	return err
}

// encode returns the payload of w.
func encode(w any) ([]byte, error) {
	p, err := json.Marshal(w)
	if err != nil {
		return nil, status.Errorf(status.Internal, "encode request: %w", err)
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

// clip returns at most 256 characters of a peer's text, for errors. It replaces
// characters that are not printable, which a terminal may interpret.
func clip(s string) string {
	const longest = 256
	out := make([]rune, 0, min(len(s), longest))
	for _, r := range s {
		if len(out) == longest {
			return string(out) + "…"
		}
		if !strconv.IsPrint(r) {
			r = '·'
		}
		out = append(out, r)
	}
	return string(out)
}
