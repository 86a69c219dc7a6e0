package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Obsolete is a key that is fixed now and was set to the fixed value.
type Obsolete struct {
	Source Source
	Key    string
	Value  string // the fixed value
	Why    string // the reason for which it is fixed
}

func (o Obsolete) String() string {
	return fmt.Sprintf("%s: %s is fixed at %s now, so take it out: %s", o.Source, o.Key, quoteEmpty(o.Value), o.Why)
}

// unsettable returns an error for each key of the layers that is unknown, or set to
// another value than the fixed one. It appends keys with their fixed value to
// Obsolete.
func (l *Loaded) unsettable(layers []layer) []error {
	values, why := fixedValues(l.Config), map[string]string{}
	for _, e := range entries() {
		why[e.key] = e.doc
	}
	var errs []error
	for _, layer := range layers {
		for key, raw := range layer.values {
			if _, ok := fieldOf(key); ok {
				continue
			}
			v, ok := values[key]
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("%sunknown key %q%s", layer.where(key), key, didYouMean(key)))
			case same(v, raw):
				l.Obsolete = append(l.Obsolete, Obsolete{layer.source, key, format(v), why[key]})
			default:
				errs = append(errs, fmt.Errorf("%s%s = %v cannot be set, it is fixed at %s now; take it out: %s",
					layer.where(key), key, raw, quoteEmpty(format(v)), why[key]))
			}
		}
	}
	slices.SortFunc(l.Obsolete, func(a, b Obsolete) int { return strings.Compare(a.String(), b.String()) })
	return errs
}

// same reports whether raw, a value of a file or the environment, decodes to v.
func same(v reflect.Value, raw any) bool {
	got := reflect.New(v.Type())
	return decode(raw, got.Interface()) == nil && got.Elem().Equal(v)
}

// quoteEmpty returns s, or two quotation marks if s is empty.
func quoteEmpty(s string) string {
	if s == "" {
		return `""`
	}
	return s
}
