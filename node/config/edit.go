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
	"allium/node/p2p"
	"allium/protocols/status"
)

// Edited is what Set or Unset did to a key.
type Edited struct {
	Explained
	File    string `json:"file"`
	Before  string `json:"before"`  // the value that was in force
	Changed bool   `json:"changed"` // whether the file was written
}

// Set sets a key in the configuration file. Several values are the elements of a list; one
// value of a list is split at its commas, as in the environment. Comments, order and layout of
// the file stay as they are. The whole configuration, with what else o names, is checked first:
// an error of it is bad_request, and nothing is written. Others are those of
// [privatefile.Rewrite].
func Set(ctx context.Context, o Options, key string, values []string) (Edited, error) {
	literal, err := literalOf(key, values)
	if err != nil {
		return Edited{}, err
	}
	return edit(ctx, o, key, func(d *document.Document) (*document.Document, error) { return d.Set(key, literal) })
}

// Unset takes a key out of the configuration file, so that its default is in force. A key that
// the file does not set is left alone; one that does not exist is taken out all the same. The
// errors are those of [Set].
func Unset(ctx context.Context, o Options, key string) (Edited, error) {
	return edit(ctx, o, key, func(d *document.Document) (*document.Document, error) {
		if _, set := d.Position(key); !set {
			if _, known := leaves(Default(p2p.Desktop), settable)[key]; !known {
				return nil, notSettable(key)
			}
		}
		return d.Unset(key)
	})
}

// edit changes the text of the file, checks it and writes it.
func edit(
	ctx context.Context, o Options, key string, change func(*document.Document) (*document.Document, error),
) (Edited, error) {
	o.Required = true
	before, err := readFile(o)
	if err != nil {
		return Edited{}, err
	}
	after, err := change(before)
	if errors.Is(err, document.ErrNoPlace) {
		return Edited{}, status.Errorf(status.Conflict, "%s is written so that only its author can change %s; edit the file",
			o.File, key)
	}
	if err != nil {
		return Edited{}, err
	}
	loaded, err := load(o, after)
	if err != nil {
		return Edited{}, err
	}
	e := Edited{File: o.File, Changed: !bytes.Equal(before.Text(), after.Text())}
	if e.Explained, err = loaded.Explain(key); err != nil {
		e.Explained = Explained{Value: Value{Key: Key{Name: key}}} // an unknown key was taken out
	}
	if was, err := load(o, before); err == nil { // a file that was wrong has no values
		if old, err := was.Explain(key); err == nil {
			e.Before = old.Value.Value
		}
	}
	if !e.Changed {
		return e, nil
	}
	return e, privatefile.Rewrite(ctx, o.File, before.Text(), after.Text())
}

// literalOf returns values as the value of a key in the syntax of TOML.
func literalOf(key string, values []string) (string, error) {
	field, known := leaves(Default(p2p.Desktop), settable)[key]
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
