package console

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
)

var update = flag.Bool("update", false, "write script/types.ts")

// shown are the types that the script reads.
var shown = []reflect.Type{
	reflect.TypeFor[api.Overview](), reflect.TypeFor[api.Why](), reflect.TypeFor[api.Event](),
	reflect.TypeFor[api.GCReport](), reflect.TypeFor[api.Problem](), reflect.TypeFor[api.Pin](),
}

// TestTypes compares the types of the script with those of the local API.
func TestTypes(t *testing.T) {
	t.Parallel()
	const file = "script/types.ts"
	want := writeTypes(shown)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a source
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the types of package api give: `go test ./gateway/console -run Types -update` "+
			"writes it (%v)", file, err)
	}
}

// writeTypes returns the types, and those that they have, as interfaces of TypeScript.
func writeTypes(types []reflect.Type) string {
	var b strings.Builder
	b.WriteString("// The types of the local API that the console reads. TestTypes makes this file.\n")
	for i := 0; i < len(types); i++ {
		fmt.Fprintf(&b, "\nexport interface %s {\n", types[i].Name())
		writeFields(&b, types[i], &types)
		b.WriteString("}\n")
	}
	return b.String()
}

// writeFields writes the members of a type, and adds the types that it finds.
func writeFields(b *strings.Builder, of reflect.Type, types *[]reflect.Type) {
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			writeFields(b, f.Type, types)
			continue
		}
		if strings.Contains(options, "omit") {
			name += "?"
		}
		fmt.Fprintf(b, "\t%s: %s;\n", name, typeText(f.Type, types))
	}
}

// typeText returns a type in TypeScript.
func typeText(of reflect.Type, types *[]reflect.Type) string {
	switch of {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[b3.Root]():
		return "string"
	}
	switch of.Kind() {
	case reflect.Pointer:
		if of.Elem().Kind() == reflect.Struct {
			return typeText(of.Elem(), types)
		}
		return typeText(of.Elem(), types) + " | null"
	case reflect.Slice:
		return typeText(of.Elem(), types) + "[]"
	case reflect.Struct:
		if !slices.Contains(*types, of) {
			*types = append(*types, of)
		}
		return of.Name()
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	default:
		return "number"
	}
}
