package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"allium/gateway/server"
)

// ownOrigin is a page that shows in its title what it may do, and asks for what it may not.
const ownOrigin = `<!doctype html><html lang="en"><title>before</title><link rel="icon" href="data:,"><p>text
<script>
const tell = async (what) => { try { return String(await what()) } catch (e) { return "refused" } };
const own = async (other, node, admin) => JSON.stringify({
  origin: location.origin,
  stored: await tell(() => { const old = localStorage.x ?? "nothing"; localStorage.x = location.host; return old }),
  cookie: await tell(() => { const old = document.cookie || "nothing"; document.cookie = "x=" + location.host;
    return old }),
  database: await tell(async () => (await indexedDB.databases()).length),
  caches: await tell(async () => (await caches.keys()).length),
  worker: await tell(async () => (await navigator.serviceWorker.register("/sw.js")).scope),
  theirs: await tell(async () => (await navigator.serviceWorker.register(other + "/sw.js")).scope),
  module: await tell(async () => (await import("/m.js")).default),
  read: await tell(async () => (await fetch(other + "/index.html")).status),
  frame: await tell(() => new Promise((done) => {
    const f = document.createElement("iframe"); f.src = other + "/plain.html";
    f.onload = () => { try { done(f.contentWindow.localStorage.x) } catch (e) { done("refused") } };
    document.body.append(f) })),
  domain: await tell(() => { document.domain = "b3.localhost"; return document.domain }),
  node: await tell(async () => (await fetch(node + "/healthz")).status),
  post: await tell(async () => (await fetch(node + "/b3", { method: "POST", body: "x" })).status),
  put: await tell(async () => (await fetch(node + "/o/b3:x", { method: "PUT", body: "x",
    headers: { Authorization: "Bearer x" } })).status),
  admin: await tell(async () => (await fetch(admin + "/api/v1/node")).status),
  drain: await tell(async () => (await fetch(admin + "/admin/drain", { method: "POST", mode: "no-cors" })).type),
});
document.title = "ran";
</script>`

// TestBrowserOrigins opens two roots at hosts of their own. Each runs scripts and has storage and workers, and neither
// reaches what the other has, nor the node. At a path of an address the same page stays in its sandbox.
func TestBrowserOrigins(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n, _ := startSites(t, func(_ *Config, a *server.AdminConfig) { a.Listen = "127.0.0.1:0" })
	files := map[string]string{
		"index.html": ownOrigin, "plain.html": "<!doctype html><title>plain</title>", "sw.js": "self.x = 1",
		"m.js": "export default 'module'",
	}
	one := n.objects.tree(t, files)
	files["other.txt"] = "makes another root"
	two := n.objects.tree(t, files)
	_, port, _ := strings.Cut(strings.TrimPrefix(n.Addrs().Gateway, "http://"), ":")
	node := "http://localhost:" + port
	admin := strings.Replace(n.Addrs().Admin, "127.0.0.1", "localhost", 1)
	b := openBrowser(t)
	at := map[string]string{
		"one": "http://" + one.CID().String() + ".b3.localhost:" + port,
		"two": "http://" + two.CID().String() + ".b3.localhost:" + port,
	}
	for _, c := range []struct{ who, other, root string }{
		{"one", "two", one.String()}, {"two", "one", two.String()}, {"one", "two", one.String()},
	} {
		b.visit(t, chromedp.Navigate(node+"/b3/"+c.root)) // the path leads to the host
		if where := see(t, b, chromedp.Location()); where != at[c.who]+"/" {
			t.Fatalf("at %s, want %s", where, at[c.who])
		}
		var got map[string]string
		text := see(t, b, chromedp.Evaluate[string](
			`own("`+at[c.other]+`", "`+node+`", "`+admin+`")`, await))
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		for what, want := range map[string]string{
			"origin": at[c.who], "worker": at[c.who] + "/", "theirs": "refused", "module": "module", "read": "refused",
			"frame": "refused", "domain": strings.TrimSuffix(strings.TrimPrefix(at[c.who], "http://"), ":"+port), "node": "refused", "post": "refused", "put": "refused",
			"admin": "refused", "database": "0", "caches": "0",
		} {
			if got[what] != want {
				t.Errorf("%s: %s is %q, want %q", c.who, what, got[what], want)
			}
		}
		own := strings.TrimPrefix(at[c.who], "http://")
		if s := got["stored"]; s != "nothing" && s != own {
			t.Errorf("%s reads in the storage %q", c.who, s)
		}
		if s := got["cookie"]; s != "nothing" && s != "x="+own {
			t.Errorf("%s reads the cookie %q", c.who, s)
		}
		b.said() // what was refused
	}
	if got := n.node.calls(); len(got) > 0 {
		t.Errorf("the node's API was called: %v", got)
	}
	b.visit(t, chromedp.Navigate(n.Addrs().Gateway+"/b3/"+one.String()+"/"))
	if title := see(t, b, chromedp.Title()); title != "before" {
		t.Errorf("at a path the script ran: %q", title)
	}
	b.said()
}
