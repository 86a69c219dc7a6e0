package gateway

import (
	"context"
	"strings"
	"testing"

	"allium/gateway/content"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// recordedObjects have a lookup for each object that they open, as those of a node have.
type recordedObjects struct {
	*fakeObjects
	inRAM []byte
}

func (o recordedObjects) Memory(root b3.Root) []byte {
	if b3.Sum(o.inRAM) == root {
		return o.inRAM
	}
	return nil
}

func (o recordedObjects) Open(ctx context.Context, root b3.Root, opt content.OpenOptions) (content.Content, error) {
	c, err := o.fakeObjects.Open(ctx, root, opt)
	if err != nil {
		return nil, status.WithLookup(err, 0xbad)
	}
	return recordedContent{c}, nil
}

type recordedContent struct{ content.Content }

func (recordedContent) LookupID() status.LookupID { return 0xf11e }

// TestAccessLogNamesLookup: the log line of each request says which lookup answers why it failed
// or was slow, also of what was here at once.
func TestAccessLogNamesLookup(t *testing.T) {
	t.Parallel()
	objects := recordedObjects{inRAM: []byte("in RAM")}
	n := startWith(t, hooks{deps: func(d *Deps) {
		objects.fakeObjects = d.Objects.(*fakeObjects)
		d.Objects = objects
		d.Served = func(b3.Root) status.LookupID { return 0x4a3 }
	}})
	local := n.objects.put([]byte("in the store"))
	remote := n.objects.add(&fakeObject{data: []byte("at a peer"), remote: true})
	for path, want := range map[string]struct {
		reason string
		lookup status.LookupID
	}{
		"/o/" + local.String():                 {"", 0xf11e},
		"/o/" + remote.String():                {"", 0xf11e},
		"/o/" + b3.Sum(objects.inRAM).String(): {"", 0x4a3},
		"/o/" + fakeRoot.String():              {"not_found", 0xbad},
		"/healthz":                             {"", 0},
	} {
		a := do(t, "GET", n.Addrs().Gateway+path)
		if got := a.Header.Get("X-Reason"); got != want.reason {
			t.Errorf("%s: %s", path, got)
		}
		if want.reason != "" && !strings.Contains(a.body, `"lookup_id":"`+want.lookup.String()+`"`) {
			t.Errorf("%s: the problem is %s", path, a.body)
		}
		corr := "corr_id=" + a.Header.Get("X-Corr-ID")
		var line string
		testkit.Eventually(t, "the line of the request", func() bool {
			for l := range strings.SplitSeq(n.log.String(), "\n") {
				if strings.Contains(l, corr) {
					line = l
				}
			}
			return line != ""
		})
		if has := strings.Contains(line, "lookup_id="+want.lookup.String()); !has && want.lookup != 0 ||
			want.lookup == 0 && strings.Contains(line, "lookup_id") {
			t.Errorf("%s: the line is %s", path, line)
		}
	}
}
