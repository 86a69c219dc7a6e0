package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"allium/internal/limits"
	"allium/node/config/document"
)

// format returns a value as a file would have it, without quotes.
func format(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case encoding.TextMarshaler:
		if p, err := x.MarshalText(); err == nil {
			return string(p)
		}
	case []string:
		return strings.Join(x, ",")
	}
	return fmt.Sprint(v.Interface())
}

// formatDuration returns d without zero parts: 24h, not 24h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// typeName returns the name of a type in the reference.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[limits.Bytes]():
		return "size"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list"
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	case reflect.Float64:
		return "number"
	default:
		return "integer"
	}
}

// initKeys are the settings that most operators look for, by table.
var initKeys = []string{
	"node.profile", "node.upload_rate",
	"store.dir", "store.max_bytes",
	"listen.port", "listen.port_map", "listen.max_memory",
	"dht.bootstrap", "dht.announce",
	"gateway.listen", "gateway.denylist",
	"log.level",
}

// TOML returns the configuration file of a new home directory. It has the settings
// that most operators look for, each with a comment. A setting that has its default
// is commented out.
func TOML(l Loaded) string {
	var b strings.Builder
	b.WriteString("# The settings that most operators look for, at their defaults: remove the # to set one.\n" +
		"# `allium config show` lists all of them, `allium config explain KEY` says more.\n")
	values := map[string]Value{}
	for _, v := range l.Values() {
		values[v.Name] = v
	}
	group := ""
	for _, name := range initKeys {
		v := values[name]
		table, key, _ := strings.Cut(name, ".")
		if table != group {
			fmt.Fprintf(&b, "\n[%s]\n", table)
			group = table
		}
		mark := ""
		if v.Source == FromDefault {
			mark = "# "
		}
		doc, _, _ := strings.Cut(v.Doc, ". ")
		fmt.Fprintf(&b, "# %s.\n%s%s = %s\n", strings.TrimSuffix(doc, "."), mark, key, literal(v))
	}
	return b.String()
}

// literal returns a value in TOML syntax.
func literal(v Value) string {
	switch v.Type {
	case "integer", "number", "bool":
		return v.Value
	case "list":
		if v.Value == "" {
			return "[]"
		}
		parts := strings.Split(v.Value, ",")
		for i, p := range parts {
			parts[i] = document.Quote(p)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		return document.Quote(v.Value)
	}
}
