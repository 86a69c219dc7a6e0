package gateway

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// badJSON is a JSON text with one mistake.
type badJSON struct {
	what string // the mistake and the member, for messages
	text string
	// number is set for a number that its member cannot hold. An answer with it is refused; an
	// answer with an unknown member is not, as a newer node may send it.
	number bool
}

// badTexts returns JSON texts that are a t with one mistake, at each place where t may have it:
// unknown members, members twice, members in another case, and numbers that are too large, too small or
// no integers.
func badTexts(t reflect.Type) (all []badJSON) {
	var visit func(t reflect.Type, at string, wrap func(string) string, above []reflect.Type)
	visit = func(t reflect.Type, at string, wrap func(string) string, above []reflect.Type) {
		say := func(what, text string, number bool) {
			all = append(all, badJSON{what + " " + at, wrap(text), number})
		}
		if t == reflect.TypeFor[json.RawMessage]() {
			return // holds any JSON
		}
		if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
			p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			say("a number as", `1e400`, true)
			return
		}
		switch t.Kind() {
		case reflect.Pointer:
			visit(t.Elem(), at, wrap, above)
		case reflect.Slice, reflect.Array:
			visit(t.Elem(), at+"[]", func(s string) string { return wrap("[" + s + "]") }, above)
		case reflect.Map:
			visit(t.Elem(), at+"{}", func(s string) string { return wrap(`{"a":` + s + `}`) }, above)
		case reflect.Struct:
			if slices.Contains(above, t) {
				return
			}
			say("an unknown member of", `{"noSuchMember":1}`, false)
			above = append(slices.Clone(above), t)
			for _, f := range reflect.VisibleFields(t) {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
					continue
				}
				member := func(s string) string { return `{"` + name + `":` + s + `}` }
				say("twice "+name+" of", `{"`+name+`":null,"`+name+`":null}`, false)
				say("upper case "+name+" of", strings.ToUpper(member("null")), false)
				visit(f.Type, at+"."+name, func(s string) string { return wrap(member(s)) }, above)
			}
		case reflect.Int, reflect.Int64:
			for _, n := range []string{"1e400", "9223372036854775808", "-9223372036854775809",
				"18446744073709551616", "1.5"} {
				say(n+" as", n, true)
			}
		case reflect.Int8, reflect.Int16, reflect.Int32:
			for _, n := range []string{"1e400", "9223372036854775808", "2147483648"} {
				say(n+" as", n, true)
			}
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			for _, n := range []string{"1e400", "18446744073709551616", "-1", "1.5"} {
				say(n+" as", n, true)
			}
		case reflect.Float32, reflect.Float64, reflect.String, reflect.Bool:
			say("1e400 as", "1e400", true)
		}
	}
	visit(t, "the value", func(s string) string { return s }, nil)
	return all
}

// TestBadJSONRequests sends every operation that takes JSON each mistake that the type of its body
// allows. Each is bad_request. The operations are those of the table of routes, so a new one is not
// left out.
func TestBadJSONRequests(t *testing.T) {
	t.Parallel()
	n := start(t)
	operations, texts := 0, 0
	for _, e := range routes() {
		for _, body := range e.Body {
			if !strings.HasSuffix(body.Media, "json") {
				continue
			}
			if body.Of == nil {
				t.Errorf("%s takes JSON of no type", e.ID)
				continue
			}
			operations++
			base := n.Addrs().Admin
			if e.On&exchange.OnAdmin == 0 {
				base = n.Addrs().Gateway
			}
			all := badTexts(body.Of)
			for _, text := range []string{
				`[]`, `null`, `1e400`, `""`, `{} {}`, `{"a`, "\xef\xbb\xbf{}", strings.Repeat("[", 20_000),
			} {
				all = append(all, badJSON{what: "no object", text: text})
			}
			for _, bad := range all {
				texts++
				a := doBody(t, e.Methods[0], base+e.Path, strings.NewReader(bad.text),
					"Content-Type", "application/json",
					"Authorization", "Bearer may-pin,"+string(e.Op))
				if a.Header.Get("X-Reason") != status.BadRequest.String() {
					t.Errorf("%s: %s (%.80s): %s %s", e.ID, bad.what, bad.text, a.Status, a.body)
				}
			}
		}
	}
	if operations == 0 {
		t.Fatal("no operation takes JSON")
	}
	t.Logf("%d texts to %d operations", texts, operations)
}
