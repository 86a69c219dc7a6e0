package config

import (
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"allium/node/p2p"
)

// keysText holds, for each key, the operator's question that it answers and
// what it means; its head says how it is written.
//
//go:embed keys.txt
var keysText string

// fixedGroup is the heading in keys.txt of the keys that nothing sets.
const fixedGroup = "Fixed"

// entry is the part of keys.txt about one key.
type entry struct {
	key, group, doc string
	value           string // of a fixed key that no package has any more
}

// entries parses keys.txt, once.
var entries = sync.OnceValue(func() []entry {
	var es []entry
	group := ""
	for line := range strings.Lines(keysText) {
		text := strings.TrimSpace(line)
		title, heading := strings.CutPrefix(line, "# ")
		switch {
		case text == "" || group == "" && !heading: // the head of the file
		case heading:
			group = strings.TrimSpace(title)
		case line[0] == ' ':
			e := &es[len(es)-1]
			e.doc = strings.TrimSpace(e.doc + " " + text)
		default:
			key, value, _ := strings.Cut(text, " = ")
			es = append(es, entry{key: key, group: group, value: value})
		}
	}
	return es
})

// Key is one configuration key.
type Key struct {
	Name    string `json:"key"`
	Type    string `json:"type"`
	Default string `json:"default"` // of the desktop profile
	Doc     string `json:"doc"`     // of a fixed key: why it is fixed
	Group   string `json:"-"`       // the operator's question that it answers
}

// Value is one key's value in use.
type Value struct {
	Key
	Value   string `json:"value"`
	Source  Source `json:"source"`
	Changed bool   `json:"-"` // whether it differs from the default of the profile
}

// Keys lists every key that can be set, grouped by the operator's questions,
// with the defaults of a desktop.
func Keys() []Key {
	values := fields()
	var keys []Key
	for _, e := range entries() {
		if e.group == fixedGroup {
			continue
		}
		v := values[e.key]
		keys = append(keys, Key{Name: e.key, Type: typeName(v.Type()), Default: format(v), Doc: e.doc, Group: e.group})
	}
	return keys
}

// Fixed lists the keys of earlier versions that nothing sets any more, with the
// values that hold.
func Fixed() []Value {
	values := fixedValues(Default(p2p.Desktop))
	var fixed []Value
	for _, e := range entries() {
		if e.group != fixedGroup {
			continue
		}
		v := values[e.key]
		k := Key{Name: e.key, Type: typeName(v.Type()), Default: format(v), Doc: e.doc, Group: e.group}
		fixed = append(fixed, Value{Key: k, Value: k.Default, Source: FromFixed})
	}
	return fixed
}

// Values lists every key that can be set with its value and origin, grouped by the operator's questions.
// The keys of a table are listed for each entry that is set.
func (l Loaded) Values() []Value {
	now, defaults := leaves(l.Config, settable), leaves(Default(l.Node.Profile), settable)
	var values []Value
	for _, k := range l.namedKeys() {
		v := format(now[k.Name])
		form, _ := formOf(k.Name)
		values = append(values,
			Value{Key: k, Value: v, Source: l.Sources[k.Name], Changed: v != format(defaults[form])})
	}
	return values
}

// fixedValues are the values of the fixed keys in c, by key.
func fixedValues(c Config) map[string]reflect.Value {
	values := leaves(c, fixed)
	for _, e := range entries() {
		if e.value != "" {
			values[e.key] = reflect.ValueOf(e.value)
		}
	}
	return values
}

// The tags of the two kinds of fields that have a key.
const (
	settable = "koanf" // a file, the environment and flags may set it
	fixed    = "fixed" // a field of an embedded Params: nothing sets it
)

// fields are the fields of a desktop's defaults that can be set, by key. Those of a table are below anyName.
var fields = sync.OnceValue(func() map[string]reflect.Value { return leaves(Default(p2p.Desktop), settable) })

// leaves returns the fields of c that have the tag, by key.
func leaves(c Config, tag string) map[string]reflect.Value {
	found := map[string]reflect.Value{}
	walk(reflect.ValueOf(c), "", tag, func(key string, v reflect.Value, _ reflect.StructField) { found[key] = v })
	return found
}

// walk calls visit for each field below v that has the tag. A map is a table by name: its entries are visited, and
// a new entry with the name anyName.
func walk(v reflect.Value, prefix, tag string, visit func(key string, v reflect.Value, f reflect.StructField)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, opt, _ := strings.Cut(f.Tag.Get(settable), ",")
		own := f.Tag.Get(fixed)
		switch {
		case opt == "squash" || name == "-" && f.Type.Kind() == reflect.Struct && tag == fixed: // a Params
			walk(v.Field(i), prefix, tag, visit)
		case own != "":
			visit(prefix+own, v.Field(i), f)
		case name == "" || name == "-":
		case f.Type.Kind() == reflect.Struct:
			walk(v.Field(i), prefix+name+".", tag, visit)
		case f.Type.Kind() == reflect.Map:
			walk(newEntry(f.Type.Elem()), prefix+name+"."+anyName+".", tag, visit)
			for _, entry := range v.Field(i).MapKeys() {
				walk(v.Field(i).MapIndex(entry), prefix+name+"."+entry.String()+".", tag, visit)
			}
		case tag == settable:
			visit(prefix+name, v.Field(i), f)
		}
	}
}
