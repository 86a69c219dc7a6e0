package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// followedNames counts who follows each name, in place of a resolver.
type followedNames struct {
	mu    sync.Mutex
	count map[string]int
}

// follow implements admin.FollowName. The zone of bad.site is not known.
func (f *followedNames) follow(_ context.Context, text string) (string, func(), error) {
	if text == "bad.site" {
		return "", nil, status.Errorf(status.NotFound, "site is not known")
	}
	full := strings.ReplaceAll(text, "site", "k51")
	f.add(full, 1)
	return full, func() { f.add(full, -1) }, nil
}

func (f *followedNames) add(full string, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[full] += by
}

// all returns how often names are followed, together.
func (f *followedNames) all() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.count {
		n += c
	}
	return n
}

// TestEventsOfNames: a reader that names names is told of those and of no others, and the node
// follows them until the reader leaves. Other topics are as they were.
func TestEventsOfNames(t *testing.T) {
	t.Parallel()
	f := &followedNames{count: map[string]int{}}
	n := startWith(t, hooks{deps: func(d *Deps) { d.FollowName = f.follow }})
	c, err := client.New(n.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	updated := func(full string, seq uint64) {
		n.events.Topic(string(api.TopicNames)).Publish(&api.Event{
			Topic: api.TopicNames, Kind: api.EventUpdated, At: fakeTime, Name: &api.Record{Name: full, Seq: seq},
		})
	}
	o := client.EventOptions{Names: []string{"blog.site", "motd.site"}, Begun: func() {
		if f.all() != 2 {
			t.Errorf("%d names are followed", f.all())
		}
		updated("other.k51", 1)
		updated("motd.k51", 2)
		n.publish("a pin")
		updated("blog.k51", 3)
	}}
	var got []string
	for e, err := range c.Events(ctx, o) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Name != nil:
			got = append(got, e.Name.Name)
		case e.Pin != nil:
			got = append(got, e.Pin.Label)
		}
		if len(got) == 3 {
			break
		}
	}
	if s := strings.Join(got, " "); s != "motd.k51 a pin blog.k51" {
		t.Errorf("got %s", s)
	}
	testkit.Eventually(t, "nobody follows", func() bool { return f.all() == 0 && n.current("events.readers") == 0 })

	url := n.Addrs().Admin + "/api/v1/events?topics=names&names="
	do(t, http.MethodGet, url+"blog.site,bad.site").problem(t, status.NotFound)
	many := strings.Repeat("a.site,", api.MaxEventNames) + "a.site"
	if p := do(t, http.MethodGet, url+many).problem(t, status.BadRequest); !strings.Contains(p.Detail, "64") {
		t.Error(p.Detail)
	}
	if f.all() != 0 {
		t.Errorf("%d names are followed after refusals", f.all())
	}
	do(t, http.MethodGet, start(t).Addrs().Admin+"/api/v1/events?names=blog.site").problem(t, status.Unsupported)
}
