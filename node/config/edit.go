package config

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"strings"

	"allium/internal/privatefile"
	"allium/node/config/document"
	"allium/protocols/status"
)

// Edited is the result of Set or Unset for one key.
type Edited struct {
	Explained
	File    string `json:"file"`
	Before  string `json:"before"`  // the value that was in force
	Changed bool   `json:"changed"` // whether the file was written
}

// Assignment is a key and its values. Several values are the elements of a list; one value of a
// list is split at its commas, as in the environment.
type Assignment struct {
	Key    string
	Values []string
}

// Assignments takes apart KEY VALUE KEY VALUE…: a key that holds one value is followed by one,
// and the values of a list end before the next name of a key.
func Assignments(args []string) ([]Assignment, error) {
	var all []Assignment
	for len(args) > 0 {
		a := Assignment{Key: args[0]}
		field, known := fieldOf(a.Key)
		if !known {
			return nil, notSettable(a.Key)
		}
		if args = args[1:]; len(args) == 0 {
			return nil, status.Errorf(status.BadRequest, "%s has no value; write KEY VALUE", a.Key)
		}
		n := 1
		for typeName(field.Type()) == "list" && n < len(args) {
			if _, next := fieldOf(args[n]); next {
				break
			}
			n++
		}
		a.Values, args = args[:n], args[n:]
		all = append(all, a)
	}
	return all, nil
}

// Set sets keys in the configuration file, all of them or none. Comments, order and layout of
// the file stay as they are. The whole configuration, with what else o names, is checked first:
// an error of it is bad_request, and nothing is written. Others are those of
// [privatefile.Rewrite].
func Set(ctx context.Context, o Options, all ...Assignment) ([]Edited, error) {
	var changes []change
	for _, a := range all {
		literal, err := literalOf(a.Key, a.Values)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{a.Key, func(d *document.Document) (*document.Document, error) {
			return d.Set(a.Key, literal)
		}})
	}
	return edit(ctx, o, changes)
}

// SetInstead sets a key as [Set] does, and takes other keys out in the same step.
func SetInstead(ctx context.Context, o Options, a Assignment, others ...string) error {
	literal, err := literalOf(a.Key, a.Values)
	if err != nil {
		return err
	}
	changes := []change{{a.Key, func(d *document.Document) (*document.Document, error) {
		return d.Set(a.Key, literal)
	}}}
	for _, key := range others {
		changes = append(changes, change{key, func(d *document.Document) (*document.Document, error) {
			return d.Unset(key)
		}})
	}
	_, err = edit(ctx, o, changes)
	return err
}

// Unset takes keys out of the configuration file, so that their defaults are in force. A key
// that the file does not set is left alone; one that does not exist is taken out all the same.
// An entry of a table, such as edge.packs.city, is taken out with all of its keys, and it goes with
// its last key. The errors are those of [Set].
func Unset(ctx context.Context, o Options, keys ...string) ([]Edited, error) {
	var changes []change
	for _, key := range keys {
		changes = append(changes, change{key, func(d *document.Document) (*document.Document, error) {
			_, entry := formOf(key)
			_, known := fieldOf(key)
			if _, set := d.Values()[key]; !set && !known && entry != key {
				return nil, notSettable(key)
			}
			next, err := d.Unset(key)
			if err == nil && entry != "" {
				next = next.Prune(entry)
			}
			return next, err
		}})
	}
	return edit(ctx, o, changes)
}

// change is the edit of one key.
type change struct {
	key string
	do  func(*document.Document) (*document.Document, error)
}

// editTries bounds how often an edit begins again because another program has changed the file.
const editTries = 10

// edit changes the text of the file, checks it and writes it.
func edit(ctx context.Context, o Options, changes []change) (edited []Edited, err error) {
	o.Required = true
	for range editTries {
		var before, after *document.Document
		if before, err = readFile(o); err != nil {
			return nil, err
		}
		if after, edited, err = changed(o, before, changes); err != nil {
			return nil, err
		}
		if bytes.Equal(before.Text(), after.Text()) {
			return edited, nil
		}
		err = privatefile.Rewrite(ctx, o.File, before.Text(), after.Text())
		if status.Of(err) != status.Conflict {
			break
		}
	}
	return edited, err
}

// changed returns the file after changes, and what they did. It checks the whole configuration.
func changed(o Options, before *document.Document, changes []change) (*document.Document, []Edited, error) {
	after := before
	edited := make([]Edited, len(changes))
	for i, c := range changes {
		next, err := c.do(after)
		if errors.Is(err, document.ErrNoPlace) {
			return nil, nil, status.Errorf(status.Conflict,
				"%s is written so that only its author can change %s; edit the file", o.File, c.key)
		}
		if err != nil {
			return nil, nil, err
		}
		edited[i] = Edited{File: o.File, Changed: !bytes.Equal(after.Text(), next.Text())}
		after = next
	}
	loaded, err := load(o, after)
	if err != nil {
		return nil, nil, err
	}
	was, wasErr := load(o, before) // a file that was wrong has no values
	for i, c := range changes {
		e := &edited[i]
		if e.Explained, err = loaded.Explain(c.key); err != nil {
			e.Explained = Explained{Value: Value{Key: Key{Name: c.key}}} // an unknown key was taken out
		}
		if wasErr != nil {
			continue
		}
		if old, err := was.Explain(c.key); err == nil {
			e.Before = old.Value.Value
		}
	}
	return after, edited, nil
}

// literalOf returns values as the value of a key in the syntax of TOML.
func literalOf(key string, values []string) (string, error) {
	field, known := fieldOf(key)
	if !known {
		return "", notSettable(key)
	}
	kind := typeName(field.Type())
	if kind != "list" && len(values) != 1 {
		return "", status.Errorf(status.BadRequest, "%s takes one value, and %d were given; quote a value with spaces",
			key, len(values))
	}
	var raw any = values
	if len(values) == 1 {
		raw = values[0]
	}
	v, err := valueOf(field.Type(), raw)
	if err != nil {
		return "", status.Errorf(status.BadRequest, "%s is %s, %w", key, shown(raw), err)
	}
	if v.Kind() == reflect.Float64 && (math.IsInf(v.Float(), 0) || math.IsNaN(v.Float())) {
		return "", status.Errorf(status.BadRequest, "%s is %s, must be a finite number", key, shown(raw))
	}
	switch kind {
	case "integer", "number", "bool":
		return format(v), nil
	case "list":
		quoted := make([]string, v.Len())
		for i := range quoted {
			quoted[i] = document.Quote(strings.TrimSpace(v.Index(i).String()))
		}
		return "[" + strings.Join(quoted, ", ") + "]", nil
	}
	return document.Quote(values[0]), nil
}

// notSettable is the error of a key that is unknown or fixed.
func notSettable(key string) error {
	for _, f := range Fixed() {
		if f.Name == key {
			return status.Errorf(status.BadRequest, "%s cannot be set, it is fixed at %s: %s", key, quoteEmpty(f.Value),
				f.Doc)
		}
	}
	return unknownKey(key)
}
