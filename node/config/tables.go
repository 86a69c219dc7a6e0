package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"allium/gateway/fill"
)

// A table by name is a map field of a Config whose values are structs: its entries are named by the operator, as
// [edge.sources.maps] in a file. The key edge.sources.maps.url then has the form edge.sources.NAME.url, and belongs
// to the entry edge.sources.maps.

// anyName stands for the name of an entry in the forms of keys. It is no valid name.
const anyName = "NAME"

// entryDefaults are the values of new entries whose fields are not all zero, by type.
var entryDefaults = map[reflect.Type]reflect.Value{
	reflect.TypeFor[fill.Source](): reflect.ValueOf(fill.DefaultSource()),
}

// newEntry returns an entry of a table before anything is set.
func newEntry(t reflect.Type) reflect.Value {
	if v, ok := entryDefaults[t]; ok {
		return v
	}
	return reflect.Zero(t)
}

// fromDefaults is a decode hook: the fields of an entry that the input does not name get their defaults.
func fromDefaults(from, to reflect.Value) (any, error) {
	if v, ok := entryDefaults[to.Type()]; ok {
		to.Set(v)
	}
	return from.Interface(), nil
}

// tables are the beginnings of keys in tables, such as "edge.packs.", in the order of Keys.
var tables = sync.OnceValue(func() (all []string) {
	for _, e := range entries() {
		if table, _, ok := strings.Cut(e.key, anyName+"."); ok && !slices.Contains(all, table) {
			all = append(all, table)
		}
	}
	return all
})

// formOf returns the form of a key, and the entry to which it belongs. The form of a key outside of tables is the key,
// and so is that of an entry itself; the former has no entry.
func formOf(key string) (form, entry string) {
	for _, table := range tables() {
		if rest, ok := strings.CutPrefix(key, table); ok {
			name, field, deeper := strings.Cut(rest, ".")
			if deeper {
				return table + anyName + "." + field, table + name
			}
			return key, key
		}
	}
	return key, ""
}

// fieldOf returns the field that a key sets, and false for an unknown key. The key may have any name in a table.
func fieldOf(key string) (reflect.Value, bool) {
	form, _ := formOf(key)
	v, ok := fields()[form]
	return v, ok
}

// likeKey returns the form of a key with the names that another key has in the same places.
func likeKey(form, key string) string {
	names, parts := strings.Split(key, "."), strings.Split(form, ".")
	for i := range min(len(parts), len(names)) {
		if parts[i] == anyName {
			parts[i] = names[i]
		}
	}
	return strings.Join(parts, ".")
}

// namedKeys lists the keys that can be set, in the order of Keys, with those of a table for each of its entries.
func (l Loaded) namedKeys() (keys []Key) {
	set := slices.Sorted(maps.Keys(l.Sources)) // keys and entries
	forms := Keys()
	for len(forms) > 0 {
		table, _, ok := strings.Cut(forms[0].Name, anyName+".")
		if !ok {
			keys, forms = append(keys, forms[0]), forms[1:]
			continue
		}
		n := slices.IndexFunc(forms, func(k Key) bool { return !strings.HasPrefix(k.Name, table) })
		if n < 0 {
			n = len(forms)
		}
		for _, entry := range set {
			if name, ok := strings.CutPrefix(entry, table); !ok || strings.Contains(name, ".") {
				continue // a key, or of another table
			}
			for _, k := range forms[:n] {
				k.Name = likeKey(k.Name, entry)
				keys = append(keys, k)
			}
		}
		forms = forms[n:]
	}
	return keys
}

// Complete lists the keys that begin as typed: those of Keys, with the keys of a table for each of its entries and for
// the entry that is typed. A table is offered too, as "edge.packs.", for a name that is to follow.
func (l Loaded) Complete(typed string) (keys []Key) {
	_, entry := formOf(typed)
	all := l.namedKeys()
	for _, k := range Keys() {
		table, field, ok := strings.Cut(k.Name, anyName+".")
		if ok && entry != typed && strings.HasPrefix(entry, table) && l.Sources[entry] == "" {
			k.Name = entry + "." + field
			all = append(all, k)
		}
	}
	for _, table := range tables() {
		all = append(all, Key{Name: table, Doc: "A table for each name"})
	}
	return slices.DeleteFunc(all, func(k Key) bool { return !strings.HasPrefix(k.Name, typed) || k.Name == typed })
}
