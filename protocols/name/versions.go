package name

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Relation says how a record relates to an earlier one of the same name.
type Relation uint8

// The relations.
const (
	Same         Relation = iota // the same seq and value: the lifetimes may differ
	Newer                        // a higher seq: it is in force
	Older                        // a lower seq: stale
	Equivocation                 // the same seq with another value: the owner of the zone signed both
)

// Compare returns how a relates to b. Both are records of one name.
func Compare(a, b Record) Relation {
	switch {
	case a.Seq > b.Seq:
		return Newer
	case a.Seq < b.Seq:
		return Older
	case a.Value != b.Value:
		return Equivocation
	}
	return Same
}

// Versions holds the known records of one name: none, the record with the highest seq, or two
// records with that seq that equivocate. The zero value holds none. A Versions is immutable.
//
// Merging the same records in any order, however often, gives the same Versions.
type Versions struct {
	records []Signed // at most 2, of one seq and different values, in the order of the values
}

// Records returns the records: none, one, or two that equivocate. The caller must not change
// the slice.
func (v Versions) Records() []Signed { return v.records }

// Current returns the record in force. If two records equivocate, it is the one with the lower value in byte order,
// which is the same on every node.
func (v Versions) Current() (Signed, bool) {
	if len(v.records) == 0 {
		return Signed{}, false
	}
	return v.records[0], true
}

// Equivocates reports whether the owner of the zone signed two values with one seq.
func (v Versions) Equivocates() bool { return len(v.records) == 2 }

// Seq returns the highest seq, 0 if nothing is known.
func (v Versions) Seq() uint64 {
	if len(v.records) == 0 {
		return 0
	}
	return v.records[0].Seq
}

// Add returns v with r, and how r relates to what v had: Newer if v was empty. If two records have one seq and value,
// the one that lives longer stays. If more than two values have one seq, the lowest two in byte order stay.
func (v Versions) Add(r Signed) (Versions, Relation) {
	rel := Newer
	for i, old := range v.records {
		if c := Compare(r.Record, old.Record); i == 0 || c == Same {
			rel = c
		}
	}
	switch rel {
	case Newer:
		return Versions{[]Signed{r}}, rel
	case Older:
		return v, rel
	case Same, Equivocation:
	}
	all := append(slices.Clone(v.records), r)
	slices.SortFunc(all, order)
	all = slices.CompactFunc(all, func(a, b Signed) bool { return a.Value == b.Value })
	return Versions{all[:min(len(all), 2)]}, rel
}

// Merge returns what both v and other know.
func (v Versions) Merge(other Versions) Versions {
	for _, r := range other.records {
		v, _ = v.Add(r)
	}
	return v
}

// order sorts records of one seq: by value, and those of one value by what is kept first.
func order(a, b Signed) int {
	return cmp.Or(
		strings.Compare(a.Value.s, b.Value.s),
		b.NotAfter.Compare(a.NotAfter),
		cmp.Compare(b.TTL, a.TTL),
		cmp.Compare(len(a.Envelope), len(b.Envelope)), // the same payload in another encoding of the envelope
		bytes.Compare(a.Envelope, b.Envelope),
	)
}
