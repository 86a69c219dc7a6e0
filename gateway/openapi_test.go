package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/gateway/openapi"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestOpenAPIIsValid: what both listeners serve, and the whole, are documents
// that others can read: valid by OpenAPI 3.1, examples included, with nothing
// left without a description.
func TestOpenAPIIsValid(t *testing.T) {
	if testing.Short() {
		t.Skip("it has one goroutine")
	}
	t.Parallel()
	for name, on := range map[string]exchange.Listeners{
		"public": exchange.OnPublic, "admin": exchange.OnAdmin, "all": exchange.OnEvery,
	} {
		raw, err := openapi.JSON(routes(), on)
		if err != nil {
			t.Fatal(err)
		}
		again, err := openapi.JSON(routes(), on)
		if err != nil || !bytes.Equal(raw, again) {
			t.Errorf("%s: two documents differ (%v)", name, err)
		}
		doc, err := openapi3.NewLoader().LoadFromData(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !doc.IsOpenAPI31OrLater() {
			t.Errorf("%s: version %s", name, doc.OpenAPI)
		}
		if err := doc.Validate(t.Context(), openapi3.EnableSchemaFormatValidation(),
			openapi3.EnableExamplesValidation()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var d openapi.Document
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		for _, problem := range lint(&d, string(raw)) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// lint is what a valid document may still leave out.
func lint(d *openapi.Document, raw string) (problems []string) {
	say := func(parts ...string) { problems = append(problems, strings.Join(parts, " ")) }
	ids := map[string]bool{}
	for path, methods := range d.Paths {
		for method, op := range methods {
			at := strings.ToUpper(method) + " " + path + ":"
			if op.ID == "" || ids[strings.ToLower(op.ID)] {
				say(at, "the operationId", op.ID, "is not the only one, or differs from another in its case alone")
			}
			ids[strings.ToLower(op.ID)] = true
			named := map[string]bool{}
			for _, p := range op.Parameters {
				name := strings.ToLower(p.Name + p.Ref[strings.LastIndexByte(p.Ref, '/')+1:])
				if named[name] {
					say(at, "two parameters are called", name)
				}
				named[name] = true
			}
			if op.Summary == "" || op.Description == "" || len(op.Tags) != 1 {
				say(at, "no summary, description or tag")
			}
			success := false
			for code, r := range op.Responses {
				success = success || code[0] == '2' || code[0] == '3'
				if r.Ref == "" && r.Description == "" {
					say(at, code, "has no description")
				}
				for name, m := range r.Content {
					if strings.HasSuffix(name, "json") && len(m.Schema) == 0 && !strings.Contains(name, "openapi") {
						say(at, code, name, "has no schema")
					}
				}
			}
			if !success {
				say(at, "nothing succeeds")
			}
			for _, p := range op.Parameters {
				if p.Ref == "" && (p.Description == "" || len(p.Schema) == 0) {
					say(at, "parameter", p.Name, "is not described")
				}
			}
		}
	}
	parts := map[string][]string{
		"schemas":    slices.Collect(maps.Keys(d.Components.Schemas)),
		"responses":  slices.Collect(maps.Keys(d.Components.Responses)),
		"parameters": slices.Collect(maps.Keys(d.Components.Parameters)),
		"headers":    slices.Collect(maps.Keys(d.Components.Headers)),
	}
	for kind, names := range parts {
		for _, name := range names {
			if !strings.Contains(raw, `"#/components/`+kind+`/`+name+`"`) {
				say(kind, name, "is used nowhere")
			}
		}
	}
	for name, s := range d.Components.Schemas {
		if s["description"] == nil {
			say("schema", name, "has no description")
		}
	}
	for name, p := range d.Components.Parameters {
		if p.Description == "" {
			say("header", name, "of requests has no description")
		}
	}
	for name, h := range d.Components.Headers {
		if h.Description == "" {
			say("header", name, "has no description")
		}
	}
	return problems
}

// TestHeaderDocs: nothing is described that no endpoint has.
func TestHeaderDocs(t *testing.T) {
	t.Parallel()
	raw, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for name := range openapi.HeaderDocs {
		if name != "Allow" && !strings.Contains(string(raw), "/"+name+`"`) {
			t.Errorf("no endpoint has %s", name)
		}
	}
}

// TestLint: the lint finds what it looks for.
func TestLint(t *testing.T) {
	t.Parallel()
	d, err := openapi.New(routes(), exchange.OnEvery)
	if err != nil {
		t.Fatal(err)
	}
	op := d.Paths["/healthz"]["get"]
	op.ID, op.Summary, op.Responses = "readyz", "", map[string]openapi.Response{"400": {}}
	op.Parameters = []openapi.Parameter{{Name: "x"}}
	d.Paths["/healthz"]["get"] = op
	d.Components.Schemas["Nothing"] = openapi.Schema{}
	d.Components.Headers["X-Nothing"] = openapi.Header{}
	got := strings.Join(lint(d, ""), "\n")
	for _, want := range []string{
		"readyz is not the only one", "no summary", "400 has no description", "nothing succeeds", "parameter x",
		"Nothing is used nowhere",
		"schema Nothing has no description", "header X-Nothing has no description",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not found in\n%s", want, got)
		}
	}
}

// TestOpenAPIIsServed: each listener serves its own, with a validator; it waits
// for nothing.
func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	n := start(t)
	for base, on := range map[string]exchange.Listeners{
		n.Addrs().Gateway: exchange.OnPublic, n.Addrs().Admin: exchange.OnEvery,
	} {
		want, err := openapi.JSON(routes(), on)
		if err != nil {
			t.Fatal(err)
		}
		a := do(t, "GET", base+"/openapi.json")
		if a.StatusCode != http.StatusOK || a.body != string(want) ||
			a.Header.Get("Content-Type") != exchange.MediaOpenAPI {
			t.Errorf("%s: %d bytes of %s", a.Status, len(a.body), a.Header.Get("Content-Type"))
		}
		etag := a.Header.Get("ETag")
		if b := do(t, "GET", base+"/openapi.json", "If-None-Match", etag); b.StatusCode != http.StatusNotModified ||
			b.body != "" {
			t.Errorf("If-None-Match: %s", b.Status)
		}
		if b := do(t, "GET", base+"/openapi.json", "If-Match", `"x"`); b.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("If-Match: %s", b.Status)
		}
		if b := do(t, "HEAD", base+"/openapi.json"); b.StatusCode != http.StatusOK ||
			b.ContentLength != int64(len(want)) {
			t.Errorf("HEAD: %s, %d bytes", b.Status, b.ContentLength)
		}
	}
}

// TestContractJudges: the judge of the other tests finds what is wrong.
func TestContractJudges(t *testing.T) {
	t.Parallel()
	all, err := contracts()
	if err != nil {
		t.Fatal(err)
	}
	head := func(pairs ...string) http.Header {
		h := http.Header{"X-Corr-Id": {"c"}, "X-Content-Type-Options": {"nosniff"}, "Referrer-Policy": {"no-referrer"}}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	js := head("Content-Type", "application/json", "Cache-Control", "no-store")
	const version = `{"version":"v","commit":"c","modified":false,"go":"g","os":"o","arch":"a"}`
	for name, c := range map[string]struct {
		seen seen
		want string
	}{
		"right": {seen{"GET", "/version", 200, js, []byte(version), true}, ""},
		"another member": {seen{
			"GET", "/version", 200, js, []byte(strings.Replace(version, "{", `{"x":"x",`, 1)), true,
		}, "x"},
		"a missing member": {seen{
			"GET", "/version", 200, js, []byte(`{"version":"v","commit":"c","modified":false}`), true,
		}, "go"},
		"another type": {seen{
			"GET", "/version", 200, js, []byte(`{"version":1,"commit":"c","modified":false,"go":"g","os":"o","arch":"a"}`), true,
		}, "string"},
		"another status": {seen{"GET", "/version", 202, js, nil, true}, "no such status"},
		"another header": {seen{
			"GET", "/version", 200, head("Content-Type", "application/json", "Server", "x"),
			[]byte(version), true,
		}, "no header Server"},
		"another media type": {seen{
			"GET", "/version", 200, head("Content-Type", "text/html"), nil, true,
		}, "answers no text/html"},
		"another reason": {seen{
			"GET", "/version", 500, head("Content-Type", exchange.MediaProblem, "X-Reason", "no_space"), nil, true,
		}, "no such reason"},
		"no correlation id": {seen{"GET", "/version", 200, http.Header{}, nil, false}, "no X-Corr-ID"},
		"a wrong header": {seen{
			"GET", "/version", 200, head("Content-Type", "application/json", "X-Corr-ID", "a b"), nil, false,
		}, "does not match"},
		"an unknown page":    {seen{"GET", "/nothing", 200, js, nil, true}, "no such operation"},
		"a page without why": {seen{"GET", "/nothing", 404, js, nil, true}, "no X-Reason"},
		"a bad line": {seen{
			"GET", "/api/v1/ls", 200, head("Content-Type", exchange.MediaLines), []byte("{\"ok\":{}}\n{\"news\":1}\n"),
			true,
		}, "news"},
		"a line of two": {seen{
			"GET", "/api/v1/ls", 200, head("Content-Type", exchange.MediaLines),
			[]byte("{\"ok\":{},\"error\":{\"reason\":\"busy\",\"message\":\"x\"}}\n"), true,
		}, "oneOf"},
		"good lines": {seen{
			"GET", "/api/v1/ls", 200, head("Content-Type", exchange.MediaLines),
			[]byte("{\"item\":{\"name\":\"a\",\"kind\":\"file\",\"size\":1}}\n{\"ok\":{}}\n"), true,
		}, ""},
		"an unknown outcome": {seen{
			"GET", "/api/v1/ls", 200, head("Content-Type", exchange.MediaLines),
			[]byte("{\"error\":{\"reason\":\"moonphase\",\"message\":\"x\"}}\n"), true,
		}, "moonphase"},
		"cut, and so unknown": {seen{"GET", "/api/v1/ls", 200, head("Content-Type",
			exchange.MediaLines), nil, false}, ""},
	} {
		got := strings.Join(all[exchange.OnAdmin].judge(c.seen), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
