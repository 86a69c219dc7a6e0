package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"allium/internal/limits"
	"allium/internal/suggest"
	"allium/node/config/document"
	"allium/protocols/status"
)

// layer has the values that one source sets, by key.
type layer struct {
	source Source
	values map[string]any
	file   string             // of FromFile
	text   *document.Document // of FromFile
}

// where begins a sentence about a key: with its place in the file, or its variable. It is empty
// for a flag, which the sentence names itself.
func (l layer) where(key string) string {
	switch l.source {
	case FromFile:
		if at, ok := l.text.Position(key); ok {
			return fmt.Sprintf("%s:%s: ", l.file, at)
		}
		return l.file + ": "
	case FromEnv:
		if _, set := l.values[key]; !set {
			return variable(key) + "__…: " // an entry of a table
		}
		return variable(key) + ": "
	}
	return ""
}

// variable is the environment variable that sets a key. It is empty for a name in a table that no variable can say.
func variable(key string) string {
	if strings.Contains(key, "__") || strings.Contains(key, "_.") {
		return ""
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "__"))
}

// typeError returns an error if a value does not have the type of its key.
func (l layer) typeError(key string, t reflect.Type, raw any) error {
	_, err := valueOf(t, raw)
	if err != nil {
		return fmt.Errorf("%s%s is %s, %w", l.where(key), key, shown(raw), err)
	}
	return nil
}

// shown is a value of a source as it is written there.
func shown(raw any) string {
	if s, ok := raw.(string); ok {
		return fmt.Sprintf("%.80q", s)
	}
	return fmt.Sprintf("%.80v", raw)
}

// valueOf converts raw to a type. The error says what is wanted.
func valueOf(t reflect.Type, raw any) (reflect.Value, error) {
	v := reflect.New(t)
	err := decode(raw, v.Interface())
	if err == nil {
		return v.Elem(), nil
	}
	switch {
	case t == reflect.TypeFor[limits.Bytes]():
		return v, errors.New("must be a size such as 64KiB or 10GiB")
	case typeName(t) == "duration":
		return v, errors.New("must be a duration such as 1500ms or 2h")
	case typeName(t) == "list":
		return v, errors.New("must be a list of strings")
	case typeName(t) == "bool":
		return v, errors.New("must be true or false")
	case typeName(t) == "number":
		return v, errors.New("must be a number")
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64 || t.Kind() == reflect.Uint64:
		return v, errors.New("must be a whole number")
	}
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return v, err
}

// flatten lists the errors that errs join.
func flatten(errs ...error) (all []error) {
	for _, err := range errs {
		if err == nil {
			continue
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = append(all, flatten(joined.Unwrap()...)...)
			continue
		}
		all = append(all, err)
	}
	return all
}

// located returns an error about a value with the place that sets the first key that it
// names. An error about no key, or about a default, stays as it is.
func (l *Loaded) located(layers []layer, err error) error {
	first := l.firstKey(err)
	for _, layer := range layers {
		if first != "" && layer.source == l.Sources[first] {
			return status.Errorf(status.BadRequest, "%s%w", layer.where(first), err)
		}
	}
	return err
}

// firstKey returns the first key that an error names, or nothing.
func (l *Loaded) firstKey(err error) string {
	first, at := "", len(err.Error())
	for key := range l.Sources {
		if i := indexWord(err.Error(), key); i >= 0 && i < at {
			first, at = key, i
		}
	}
	return first
}

// once returns the errors of errs that are not told otherwise: their first key is not that of an error of told, and
// they name no key whose value has the wrong type, and is the default here.
func (l *Loaded) once(told []error, mistyped []string, errs []error) (rest []error) {
	keys := map[string]bool{}
	for _, err := range told {
		keys[l.firstKey(err)] = true
	}
	for _, err := range errs {
		names := func(key string) bool { return indexWord(err.Error(), key) >= 0 }
		if first := l.firstKey(err); first != "" && keys[first] || slices.ContainsFunc(mistyped, names) {
			continue
		}
		rest = append(rest, err)
	}
	return rest
}

// indexWord returns where a key begins in a text, and -1 if the text has it only as a part of
// another key.
func indexWord(text, key string) int {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	part := func(s string) bool {
		return s != "" && strings.Trim(s, letters+strings.ToUpper(letters)+"0123456789_-") == ""
	}
	for from := 0; ; {
		i := strings.Index(text[from:], key)
		if i < 0 {
			return -1
		}
		i += from
		from = i + len(key)
		after := text[from:]
		longer := len(after) > 0 && part(after[:1]) || len(after) > 1 && after[0] == '.' && part(after[1:2])
		if !longer && (i == 0 || !part(text[i-1:i]) && text[i-1] != '.') {
			return i
		}
	}
}

// notKeys are the variables of this program that set no key.
var notKeys = []string{envPrefix + "HOME", envPrefix + "TOKEN"}

// strays returns an error for each variable that sets no key and is close to the one of a key,
// such as ALLIUM_DHT_ALPHA. Others are left alone: the environment belongs to many programs.
func strays(env []string) (errs []error) {
	byName := map[string]string{}
	var names []string
	for _, k := range Keys() {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
		byName[name], names = k.Name, append(names, name)
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		rest, ours := strings.CutPrefix(strings.ToUpper(name), envPrefix)
		if !ours || isKeyVariable(name) || suggest.Nearest(name, notKeys) != "" {
			continue
		}
		near := suggest.Nearest(envPrefix+rest, names)
		if diff := len(near) - len(name); near == "" || diff < -closeBy || diff > closeBy {
			continue
		}
		errs = append(errs, fmt.Errorf("%s sets nothing; did you mean %s, the variable of %s? Rename it or unset it",
			name, variable(byName[near]), byName[near]))
	}
	return errs
}

// closeBy is the number of letters by which the length of a variable may differ from that of a key's.
const closeBy = 3

// isKeyVariable reports whether a variable is written like that of a key, known or not.
func isKeyVariable(name string) bool {
	key, ours := strings.CutPrefix(name, envPrefix)
	return ours && strings.Contains(key, "__")
}

// fromEnv returns the values of the variables that set keys, by dotted key.
func fromEnv(env []string) map[string]any {
	values := map[string]any{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if isKeyVariable(name) {
			values[strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "__", "."))] = value
		}
	}
	return values
}
