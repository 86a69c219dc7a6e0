package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"allium/protocols/status"
)

// hotTag marks, with the value true, what a reload applies: the field of a key; a table by name, whose entries may
// come, go and change; or a struct, with all keys below it. A field in the entries of a table that is not marked
// itself is applied in entries that are there before and after the reload. The value nonzero marks a key that is hot
// between two values that are not zero: whether there is one at all is decided at the start.
const (
	hotTag     = "hot"
	hotAlways  = "true"
	hotNonzero = "nonzero"
)

// hotForms are the tags of the hot keys by their forms, and of the hot tables, as "edge.packs".
var hotForms = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	findHot(reflect.TypeFor[Config](), "", "", all)
	return all
})

// findHot adds the hot keys and tables of a struct to all. hot is the tag of the struct.
func findHot(t reflect.Type, prefix, hot string, all map[string]string) {
	for f := range t.Fields() {
		name, opt, _ := strings.Cut(f.Tag.Get(settable), ",")
		tag := cmp.Or(f.Tag.Get(hotTag), hot)
		switch {
		case opt == "squash":
			findHot(f.Type, prefix, tag, all)
		case name == "" || name == "-":
		case f.Type.Kind() == reflect.Struct:
			findHot(f.Type, prefix+name+".", tag, all)
		case f.Type.Kind() == reflect.Map:
			if tag != "" {
				all[prefix+name] = tag
			}
			findHot(f.Type.Elem(), prefix+name+"."+anyName+".", tag, all)
		case tag != "":
			all[prefix+name] = tag
		}
	}
}

// appliesTo reports whether a tag lets a reload change a value.
func appliesTo(tag string, old, now reflect.Value) bool {
	return tag == hotAlways || tag == hotNonzero && !old.IsZero() && !now.IsZero()
}

// IsHot reports whether a reload applies a new value of a key. The key may have any name in a table. An entry of a
// table, such as edge.packs.city, is hot if it may come and go.
func IsHot(key string) bool {
	form, entry := formOf(key)
	if entry == key {
		return hotForms()[key[:strings.LastIndexByte(key, '.')]] != ""
	}
	return hotForms()[form] != ""
}

// Change is a key whose value differs between two configurations.
type Change struct {
	Key string
	Old string // as a file has it, without quotes; empty also for a key of an entry that is not there
	New string // in the same way
	Hot bool   // a reload applies it
}

// Diff lists the keys whose values differ, in the order of Keys. If only one of the two has an entry, it lists the keys
// of the entry that differ from those of a new one.
func Diff(running, next Loaded) (changes []Change) {
	union := maps.Clone(running.Sources)
	maps.Copy(union, next.Sources)
	old, now := leaves(running.Config, settable), leaves(next.Config, settable)
	for _, k := range (Loaded{Sources: union}).namedKeys() {
		was, had := old[k.Name]
		is, has := now[k.Name]
		form, entry := formOf(k.Name)
		c := Change{Key: k.Name, Hot: IsHot(k.Name)}
		switch {
		case had && has:
			if equal(was, is) {
				continue
			}
			c.Old, c.New, c.Hot = format(was), format(is), appliesTo(hotForms()[form], was, is)
		case has:
			if equal(fields()[form], is) {
				continue
			}
			c.New, c.Hot = format(is), IsHot(entry)
		case had:
			if equal(fields()[form], was) {
				continue
			}
			c.Old, c.Hot = format(was), IsHot(entry)
		}
		changes = append(changes, c)
	}
	return changes
}

// equal reports whether two values of a key are equal. A list that is nil is an empty one.
func equal(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// With returns the configuration that a reload of next puts in force: the hot keys of next, and the values of l of
// all others. l and next do not change. It returns bad_request if the two do not fit together.
func (l Loaded) With(next Loaded) (Loaded, error) {
	out := l
	out.File, out.Obsolete = next.File, next.Obsolete
	applyHot(reflect.ValueOf(&out.Config).Elem(), reflect.ValueOf(next.Config), "")
	old, now := leaves(l.Config, settable), leaves(next.Config, settable)
	out.Sources = make(map[string]Source, len(l.Sources))
	for key := range leaves(out.Config, settable) {
		was, had := old[key]
		is, has := now[key]
		from := l.Sources
		form, _ := formOf(key)
		if has && (!had || equal(was, is) || appliesTo(hotForms()[form], was, is)) {
			from = next.Sources
		}
		out.Sources[key] = from[key]
		if _, entry := formOf(key); entry != "" && !isForm(entry) {
			out.Sources[entry] = cmp.Or(l.Sources[entry], next.Sources[entry])
		}
	}
	for _, err := range flatten(out.privateListen(), out.Validate()) {
		return Loaded{}, status.Errorf(status.BadRequest, "the keys that a reload applies do not fit to the running "+
			"values of those that wait for a restart: %w. Restart the node, or change them back", err)
	}
	return out, nil
}

// applyHot sets the hot fields of a struct to those of src. hot is the tag of the struct.
func applyHot(dst, src reflect.Value, hot string) {
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		name, opt, _ := strings.Cut(f.Tag.Get(settable), ",")
		tag := cmp.Or(f.Tag.Get(hotTag), hot)
		switch {
		case opt != "squash" && (name == "" || name == "-"):
		case f.Type.Kind() == reflect.Struct:
			applyHot(dst.Field(i), src.Field(i), tag)
		case appliesTo(tag, dst.Field(i), src.Field(i)):
			dst.Field(i).Set(src.Field(i))
		case f.Type.Kind() == reflect.Map && !dst.Field(i).IsNil():
			dst.Field(i).Set(withHotFields(dst.Field(i), src.Field(i)))
		}
	}
}

// withHotFields returns a copy of a table that is not hot, with the hot fields of the entries that src has too.
func withHotFields(table, src reflect.Value) reflect.Value {
	out := reflect.MakeMapWithSize(table.Type(), table.Len())
	for name, entry := range table.Seq2() {
		e := reflect.New(entry.Type()).Elem()
		e.Set(entry)
		if now := src.MapIndex(name); now.IsValid() {
			applyHot(e, now, "")
		}
		out.SetMapIndex(name, e)
	}
	return out
}

// Unsourced returns a configuration that no source set: all of its values count as defaults.
func Unsourced(c Config) Loaded {
	l := Loaded{Config: c, Sources: map[string]Source{}}
	for key := range leaves(c, settable) {
		l.Sources[key] = FromDefault
		if _, entry := formOf(key); entry != "" && !isForm(entry) {
			l.Sources[entry] = FromDefault
		}
	}
	return l
}

// isForm reports whether a key has anyName in it.
func isForm(key string) bool { return slices.Contains(strings.Split(key, "."), anyName) }
