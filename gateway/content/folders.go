package content

import (
	"cmp"
	"context"
	"net/http"
	"path"

	"allium/gateway/content/pages"
	"allium/gateway/exchange"
	"allium/gateway/verified/bundle"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Folders answers requests for a whole directory in one answer, such as an archive. Its methods may be called from any
// goroutine.
type Folders interface {
	// Wants reports whether the query of a request asks for the directory in a format of this handler, such as an
	// archive.
	Wants(r *http.Request) bool
	// Serve answers such a request. An error before the first byte becomes a problem.
	Serve(r *http.Request, f *Folder) error
}

// Folder is a directory that is asked for whole, and the answer to that. Only the goroutine of the request uses it.
type Folder struct {
	Root b3.Root // of the directory
	Name string  // the last element of the path that named it, "" for none
	Key  string  // begins the entity tags of its archives

	top  b3.Root
	path string // below top
	g    *Handlers
	b    *body
	r    *http.Request
}

// serveDirectory serves a directory in the form that the request asks for: whole in one answer, or as a page.
func serveDirectory(g *Handlers, b *body, r *http.Request, t target, dir *manifest.Dir) error {
	if t.asset == "" && t.nameless() {
		var err error
		if t.called, err = pages.Called(r.URL.Query()); err != nil {
			return err
		}
	}
	if t.asset == "" && g.folders != nil && g.folders.Wants(r) {
		return serveFolder(g, b, r, t, dir.Root)
	}
	return g.directory(b, r, t, dir)
}

// serveFolder serves the directory root, which t names, in one answer.
func serveFolder(g *Handlers, b *body, r *http.Request, t target, root b3.Root) error {
	f := &Folder{Root: root, Name: t.label(), Key: t.mount.key(root), top: t.root, path: t.path(), g: g, b: b, r: r}
	return g.folders.Serve(r, f)
}

// label returns the last element of the path, the name, or what the query calls the directory; "" for none of them.
func (t target) label() string {
	if len(t.names) > 0 {
		return t.names[len(t.names)-1]
	}
	if t.mount != nil {
		return t.mount.Name
	}
	if len(t.below) > 0 {
		return t.below[len(t.below)-1]
	}
	return cmp.Or(t.name, t.called)
}

// Response returns the answer.
func (f *Folder) Response() *exchange.Response { return f.b.w }

// Context returns the context of the answer, which ends when the content stalls.
func (f *Folder) Context() context.Context { return f.b.mayStall() }

// Open opens an object of the tree after the denylist let it pass. It looks in the store first and asks the network
// under a permit of the fetch gate, which the Content holds until it is closed. fetched tells that it did.
func (f *Folder) Open(root b3.Root) (c Content, fetched bool, err error) {
	c, err = f.g.open(f.b, f.r, root, OpenOptions{Via: f.top, Whole: true})
	_, fetched = c.(fetchedContent)
	return c, fetched, err
}

// Memory returns the bytes of an object that is in RAM, or nil.
func (f *Folder) Memory(root b3.Root) []byte { return f.g.objects.Memory(root) }

// Acquire waits for a permit of the fetch gate, under which Fetch may be called until leave.
func (f *Folder) Acquire() (leave func(), err error) {
	if exchange.OnlyIfCached(f.r) {
		return nil, status.Errorf(status.Precondition, "the request has only-if-cached")
	}
	return f.g.fetching(f.b.mayStall(), f.b.w)
}

// Fetch opens an object as Open does, under the permit that Acquire returned. Any goroutine may call it.
func (f *Folder) Fetch(ctx context.Context, root b3.Root) (Content, error) {
	if err := f.g.denylist.Object(root); err != nil {
		return nil, err
	}
	return f.g.objects.Open(ctx, root, OpenOptions{Via: f.top, Whole: true})
}

// Allowed returns denied for an entry that the denylist names, by its path below the directory or by its address,
// which is zero for a link.
func (f *Folder) Allowed(below string, root b3.Root) error {
	if err := f.g.denylist.Path(f.top, path.Join(f.path, below)); err != nil || root.IsZero() {
		return err
	}
	return f.g.denylist.Object(root)
}

// Arrives tells that a part of the tree arrived while nothing is written, so that the answer does not count as stalled.
func (f *Folder) Arrives() {
	f.b.stall.resume()
}

// Begin arranges for header to be called before the first byte, or now for an answer without a body.
func (f *Folder) Begin(header func(), bodiless bool) {
	f.b.header = func(*body) { header() }
	if bodiless {
		f.b.begin()
	}
}

// Write sends verified bytes.
func (f *Folder) Write(p []byte) (int, error) { return f.b.Write(p) }

// folderAnswers are the answers of a directory in one answer.
var folderAnswers = []exchange.Reply{
	archiveAnswer(http.StatusOK, exchange.MediaTar, "the directory as a tar"),
	archiveAnswer(http.StatusOK, exchange.MediaZip, "the directory as a zip"),
	archiveAnswer(http.StatusPartialContent, exchange.MediaTar, "a range of the tar", "Content-Range"),
	archiveAnswer(http.StatusPartialContent, exchange.MediaZip, "a range of the zip", "Content-Range"),
	{
		Code: http.StatusOK, Payload: exchange.Payload{Media: bundle.MediaType},
		Headers: []string{"ETag", "Cache-Control", "Accept-Ranges", "Cross-Origin-Resource-Policy"},
		Doc:     "the objects of the directory with their proofs (gateway/verified/bundle/FORMAT.md)",
	},
}

func archiveAnswer(code int, media, doc string, more ...string) exchange.Reply {
	return exchange.Reply{
		Code: code, Payload: exchange.Payload{Media: media}, Headers: append(more, objectHeaders...), Doc: doc,
	}
}

// folderParams are the parameters of a directory in one answer, beside format.
var folderParams = []exchange.Param{
	{
		Name: "bodies",
		Doc:  "with format=bundle: the size in bytes of the largest file in it, at most 1048576; -1 for none",
	},
	{Name: "objects", Doc: "with format=bundle: the numbers of the objects in it, FIRST-LAST, FIRST- or NUMBER, " +
		"ascending and with commas between them"},
}
