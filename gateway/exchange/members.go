package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// checkMembers refuses what encoding/json lets pass in an object that it made a
// t of: the name of a member in another case, one that is there twice, of which
// who looks at the request elsewhere may see the other (RFC 8259 §4), and text
// that is no UTF-8, in place of which it puts another.
func checkMembers(raw []byte, t reflect.Type) error {
	if !utf8.Valid(raw) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	first, err := d.Token()
	if err == nil && first != json.Delim('{') {
		return errors.New("it is no object")
	}
	if err != nil {
		return err
	}
	return checkObject(d, t)
}

// checkObject goes on after the opening brace of what became a t, to the closing
// one.
func checkObject(d *json.Decoder, t reflect.Type) error {
	var seen []string
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		of, known := memberOf(t, name)
		if !known {
			return fmt.Errorf("unknown field %q", Clip(name))
		}
		for _, s := range seen {
			if s == name {
				return fmt.Errorf("%q is there twice", name)
			}
		}
		seen = append(seen, name) // as many as t has fields
		if err := checkValue(d, of); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// checkValue goes over the next value, which became a t.
func checkValue(d *json.Decoder, t reflect.Type) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return checkObject(d, t)
	case json.Delim('['):
		for d.More() {
			if err := checkValue(d, t.Elem()); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

// memberOf is the type of the field that has exactly that name in JSON.
func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		if n, _, _ := strings.Cut(f.Tag.Get("json"), ","); n == name {
			return f.Type, true
		}
	}
	return nil, false
}
