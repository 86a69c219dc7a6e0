package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"allium/gateway/exchange"
	"allium/gateway/hosts"
	"allium/gateway/openapi"
	"allium/gateway/server"
	"allium/gateway/server/conns"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract is the document of a listener as the judge of what it answers.
type contract struct {
	paths    map[string]map[string]openapi.Operation
	doc      *openapi.Document
	schemas  map[string]*jsonschema.Schema // by the pointer to them
	patterns map[string]*regexp.Regexp     // of headers
}

// contracts are the judges of both listeners, made once.
var contracts = sync.OnceValues(func() (map[exchange.Listeners]*contract, error) {
	all := map[exchange.Listeners]*contract{}
	for _, on := range []exchange.Listeners{exchange.OnPublic, exchange.OnAdmin} {
		c, err := newContract(on)
		if err != nil {
			return nil, err
		}
		all[on] = c
	}
	return all, nil
})

func newContract(on exchange.Listeners) (*contract, error) {
	raw, err := openapi.JSON(routes(), on)
	if err != nil {
		return nil, err
	}
	c := &contract{
		doc: &openapi.Document{}, schemas: map[string]*jsonschema.Schema{}, patterns: map[string]*regexp.Regexp{},
	}
	if err := json.Unmarshal(raw, c.doc); err != nil {
		return nil, err
	}
	c.paths = c.doc.Paths
	for name, h := range openapi.HeaderDocs {
		if c.patterns[http.CanonicalHeaderKey(name)], err = regexp.Compile(h.Pattern); err != nil {
			return nil, err
		}
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	// What the document leaves open for later versions is closed here: a member
	// that it does not have is not described.
	comps := tree.(map[string]any)["components"].(map[string]any)
	for _, s := range comps["schemas"].(map[string]any) {
		if s := s.(map[string]any); s["properties"] != nil {
			s["additionalProperties"] = false
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(
		"doc.json", map[string]any{"components": map[string]any{"schemas": comps["schemas"]}}); err != nil {
		return nil, err
	}
	compile := func(at string, s openapi.Schema) error {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		local, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.ReplaceAll(string(text), `"#/components`,
			`"doc.json#/components`)))
		if err != nil {
			return err
		}
		if err := compiler.AddResource(at, local); err != nil {
			return err
		}
		c.schemas[at], err = compiler.Compile(at)
		return err
	}
	n := 0
	each := func(content map[string]openapi.Media) error {
		for name, m := range content {
			if m.Schema == nil || m.Schema["format"] == "binary" {
				content[name] = openapi.Media{} // whatever the bytes are
				continue
			}
			n++
			at := "s" + strconv.Itoa(n) + ".json"
			if err := compile(at, m.Schema); err != nil {
				return err
			}
			content[name] = openapi.Media{Schema: openapi.Schema{"at": at}}
		}
		return nil
	}
	for _, r := range c.doc.Components.Responses {
		if err := each(r.Content); err != nil {
			return nil, err
		}
	}
	for _, methods := range c.paths {
		for _, op := range methods {
			for _, r := range op.Responses {
				if err := each(r.Content); err != nil {
					return nil, err
				}
			}
			if op.Body != nil {
				if err := each(op.Body.Content); err != nil {
					return nil, err
				}
			}
		}
	}
	return c, nil
}

// find is the operation of a request, and whether its path is known.
func (c *contract) find(method, path string) (op openapi.Operation, known bool) {
	methods, known := c.paths[path]
	longest := 0
	for template, of := range c.paths {
		prefix, _, open := strings.Cut(template, "{")
		if !known && open && strings.HasPrefix(path, prefix) && len(prefix) > longest {
			methods, longest = of, len(prefix)
		}
	}
	if method == strings.ToUpper(method) { // "get" is a method that nobody has
		op = methods[strings.ToLower(method)]
	}
	return op, methods != nil
}

// seen is one request and what was answered.
type seen struct {
	method, path string
	status       int
	header       http.Header
	body         []byte // of JSON and lines; nil when it is too long or was cut
	whole        bool   // the handler returned and did not cut
}

// judge returns what the document does not say of an answer.
func (c *contract) judge(s seen) (bad []string) {
	say := func(format string, args ...any) {
		bad = append(bad, fmt.Sprintf("%s %s: %d: %s", s.method, exchange.Clip(s.path), s.status,
			fmt.Sprintf(format, args...)))
	}
	for _, name := range openapi.EveryAnswer {
		if s.header.Get(name) == "" {
			say("no %s", name)
		}
	}
	if n := len(s.header["Allow"]); n > 1 {
		say("Allow is %d lines", n)
	}
	op, known := c.find(s.method, s.path)
	reason := s.header.Get("X-Reason")
	switch {
	case op.ID == "" && known && s.method == http.MethodOptions && s.status == http.StatusNoContent:
		if s.header.Get("Allow") == "" {
			say("no Allow")
		}
		return bad
	case s.method == http.MethodOptions && s.path == "*" && s.status == http.StatusOK: // OpenAPI cannot say it
		return bad
	case op.ID == "" && s.status < http.StatusBadRequest:
		say("there is no such operation")
		return bad
	case op.ID == "": // 404, 405 or what the guards say
		if reason == "" {
			say("no X-Reason")
		}
		return bad
	}
	r, ok := op.Responses[strconv.Itoa(s.status)]
	if !ok {
		say("%s has no such status (reason %q)", op.ID, reason)
		return bad
	}
	if r.Ref != "" {
		name := r.Ref[strings.LastIndexByte(r.Ref, '/')+1:]
		r = c.doc.Components.Responses[name]
		reasons, _, _ := strings.Cut(name, ".")
		if !slices.Contains(strings.Split(reasons, "-")[1:], reason) {
			say("%s has no such reason: %q", op.ID, reason)
		}
	}
	for name, values := range s.header {
		if _, ok := r.Headers[name]; !ok && !implied(name) && !hasHeader(r.Headers, name) {
			say("%s has no header %s: %q", op.ID, name, values)
		}
		if p := c.patterns[name]; p != nil && !p.MatchString(strings.Join(values, ", ")) {
			say("%s: %q does not match %s", name, values, p)
		}
	}
	contentType := s.header.Get("Content-Type")
	if contentType == "" {
		if len(r.Content) > 0 && s.whole && s.method != http.MethodHead {
			say("%s has a body, and the answer has none", op.ID)
		}
		return bad
	}
	base, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		say("%q: %v", contentType, err)
	}
	var described *openapi.Media
	for name, m := range r.Content {
		of, _, err := mime.ParseMediaType(name)
		if err != nil {
			say("%s: %q: %v", op.ID, name, err)
		}
		if of == base || name == exchange.MediaAny && described == nil {
			described = &m
		}
	}
	if described == nil && s.method != http.MethodHead {
		say("%s answers no %s", op.ID, contentType)
	}
	if described == nil || described.Schema == nil || s.body == nil || s.header.Get("Content-Encoding") != "" ||
		!strings.HasSuffix(base, "json") || s.method == http.MethodHead {
		return bad
	}
	at := c.schemas[described.Schema["at"].(string)]
	values := [][]byte{s.body}
	if base == exchange.MediaLines {
		values = bytes.Split(bytes.TrimSuffix(s.body, []byte("\n")), []byte("\n"))
	}
	for _, v := range values {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(v))
		if err == nil {
			err = at.Validate(value)
		}
		if err != nil {
			say("%s: %s: %v", op.ID, exchange.Clip(string(v)), err)
		}
	}
	return bad
}

func hasHeader(headers map[string]openapi.Header, name string) bool {
	for h := range headers {
		if http.CanonicalHeaderKey(h) == name {
			return true
		}
	}
	return false
}

// implied are the headers that HTTP itself is responsible for, and the page
// policy of the admin's tools.
func implied(name string) bool {
	switch name {
	case "Content-Type", "Content-Length", "Connection", "Date":
		return true
	}
	return strings.EqualFold(name, "X-Allium-Status") // a trailer
}

// watched is what a test's gateway answered that its document does not say.
type watched struct {
	hosts *hosts.Finder // of the gateway: the document does not say what websites answer
	mu    sync.Mutex
	bad   []string
	ops   map[string][]int // operationId to the statuses it had
}

// watchContract judges all that a gateway of these params answers; the test fails
// at its end for what was wrong.
func watchContract(t testing.TB, p *server.Params) *watched {
	t.Helper()
	all, err := contracts()
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{ops: map[string][]int{}}
	p.Wrap = func(of server.Role, h http.Handler) http.Handler {
		c := all[exchange.OnAdmin]
		switch of {
		case server.Public:
			c = all[exchange.OnPublic]
		case server.Redirect:
			return h // it has no document
		}
		return http.HandlerFunc(func(hw http.ResponseWriter, r *http.Request) {
			if at, _ := w.hosts.Find(r.Host); at.Site != nil && of == server.Public {
				h.ServeHTTP(hw, r)
				return
			}
			rec := &recording{ResponseWriter: hw, request: r}
			path := cmp.Or(r.URL.EscapedPath(), "/")
			if slices.Contains(exchange.Reading, r.Method) && strings.HasPrefix(path, "//") {
				path = "/" + strings.TrimLeft(path, "/")
			}
			whole := false
			defer func() {
				if rec.status == 0 {
					return
				}
				got := seen{method: r.Method, path: path, status: rec.status, header: rec.header, whole: whole}
				if whole && !rec.long {
					got.body = rec.body.Bytes()
				}
				bad := c.judge(got)
				op, _ := c.find(r.Method, path)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.bad = append(w.bad, bad...)
				w.ops[op.ID] = append(w.ops[op.ID], rec.status)
			}()
			h.ServeHTTP(rec, r)
			whole = true
		})
	}
	return w
}

func (w *watched) report(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.bad)
	w.bad = slices.Compact(w.bad)
	const most = 10
	for _, b := range w.bad[:min(most, len(w.bad))] {
		t.Error("not as openapi.json says:", b)
	}
}

// recording keeps what a handler answers.
type recording struct {
	http.ResponseWriter
	request *http.Request
	status  int
	header  http.Header
	body    bytes.Buffer
	long    bool
}

const mostRecorded = 1 << 20

func (r *recording) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recording) WriteHeader(code int) {
	if r.status == 0 {
		r.status, r.header = code, conns.HeaderOf(r.ResponseWriter, r.request).Clone()
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recording) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(p)
	if err != nil || r.body.Len()+n > mostRecorded {
		r.long = true
	} else if strings.Contains(r.header.Get("Content-Type"), "json") {
		r.body.Write(p[:n])
	}
	return n, err
}
