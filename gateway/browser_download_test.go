package gateway

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	chrome "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// proofBytesEnv sets the size of the object that TestBrowserDownload proves, such as 1GiB.
const proofBytesEnv = "ALLIUM_PROOF_BYTES"

// downloads lets the browser download to a new directory, which it returns.
func (b *browser) downloads(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	_, err := chromedp.Call(b.ctx, chrome.SetDownloadBehavior, chrome.SetDownloadBehaviorParams{
		Behavior: chrome.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// memoryOf returns the memory of a process and of all below it, in bytes, without what they share. It is 0 where the
// system does not say.
func memoryOf(pid int) (sum int64) {
	parents := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(b), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			parent, _ := strconv.Atoi(fields[1])
			parents[parent] = append(parents[parent], child)
		}
	}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		todo = append(todo, parents[todo[0]]...)
		b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(todo[0]), "status"))
		_, rest, _ := strings.Cut(string(b), "RssAnon:")
		if fields := strings.Fields(rest); len(fields) > 0 {
			kib, _ := strconv.ParseInt(fields[0], 10, 64)
			sum += kib << 10
		}
	}
	return sum
}

// peak measures the highest memory of a process while work runs, over what it has before, in bytes.
func peak(pid int, work func()) int64 {
	before, most := memoryOf(pid), int64(0)
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			most = max(most, memoryOf(pid))
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	work()
	close(done)
	watch.Wait()
	return most - before
}

// TestBrowserDownload saves a long object by an ordinary download, as browsers do that let no page write a file. The
// bytes are those of the object, and the browser's memory does not grow with them (Linux). It logs how fast that was,
// and how fast a download is that proves nothing.
func TestBrowserDownload(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	size := limits.Bytes(512 << 20)
	if text := os.Getenv(proofBytesEnv); text != "" {
		if err := size.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	n := start(t)
	data := patterned(int(size))
	root := n.objects.put(data)
	b := openBrowser(t)
	dir := b.downloads(t)
	pid := chromedp.FromContext(b.ctx).Browser.Process().Pid
	base := n.Addrs().Gateway
	whole := func(name string) {
		t.Helper()
		testkit.Eventually(t, name+" is whole", func() bool {
			info, err := os.Stat(filepath.Join(dir, name))
			return err == nil && info.Size() == int64(size)
		})
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		h := b3.NewHasher(nil, 1)
		if _, err := io.Copy(h, f); err != nil {
			t.Fatal(err)
		}
		if got, _, err := h.Sum(); err != nil || got != root {
			t.Errorf("%s is another file: %v", name, err)
		}
	}
	b.do(t, chromedp.Navigate(base+"/verify/"+root.String()+"?name=proved%20é.bin"), chromedp.WaitEnabled("#save"))
	// Without the tools of developers, which copy what a page requests.
	if _, err := chromedp.Call(b.ctx, network.Disable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	grown := peak(pid, func() {
		begun := time.Now()
		b.do(t, chromedp.Click("#save"))
		b.until(t, `document.querySelector("#state").className !== ""`)
		t.Logf("proved in %s: %s", time.Since(begun), see(t, b, chromedp.Text("#state")))
	})
	whole("proved é.bin")
	b.quiet(t, "a proved download")
	t.Logf("%s proved, with %s more memory", size.Human(), limits.Bytes(grown).Human())
	const most = 400 << 20 // what waits, what four scripts leave to their garbage collectors, and the workers
	if grown > most {
		t.Errorf("the browser took %s more", limits.Bytes(grown).Human())
	}
	begun := time.Now()
	see(t, b, chromedp.Evaluate[string](`location.href = "/o/`+root.String()+`/plain.bin"`))
	name := filepath.Join(dir, "plain.bin")
	testkit.Eventually(t, "the plain download", func() bool {
		info, err := os.Stat(name)
		return err == nil && info.Size() == int64(size)
	})
	t.Logf("a plain download took %s", time.Since(begun))
}

// TestBrowserDownloadFails: a download of what does not prove is one that failed, and leaves nothing.
func TestBrowserDownloadFails(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := start(t)
	root := n.objects.put(patterned(40 << 20))
	l := newLiar(t, n.Addrs().Gateway, "")
	l.set("middle", true)
	b := openBrowser(t)
	dir := b.downloads(t)
	b.do(t, chromedp.Navigate(l.URL+"/verify/"+root.String()+"?name=a.bin"), chromedp.Click("#save"))
	b.until(t, `document.querySelector("#state").className === "bad"`)
	if text := see(t, b, chromedp.Text("#state")); !strings.Contains(text, "Nothing is saved.") {
		t.Errorf("the page says %q", text)
	}
	testkit.Eventually(t, "nothing is left", func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	})

	// Denied by the browser, which then takes no bytes: the page waits until it is cancelled.
	l.set("", false)
	_, err := chromedp.Call(b.ctx, chrome.SetDownloadBehavior, chrome.SetDownloadBehaviorParams{
		Behavior: chrome.SetDownloadBehaviorBehaviorDeny,
	})
	if err != nil {
		t.Fatal(err)
	}
	small := n.objects.put(patterned(1 << 20)).String()
	b.do(t, chromedp.Navigate(l.URL+"/verify/"+small+"?name=a.bin"), chromedp.Click("#save"))
	b.until(t, `document.querySelector("#speed").textContent !== ""`)
	b.do(t, chromedp.Click("#stop"))
	b.until(t, `document.querySelector("#state").textContent === "Cancelled. Nothing is saved."`)
	dir = b.downloads(t)

	// Cancelled in the middle.
	l.set("stalled", true)
	b.do(t, chromedp.Navigate(l.URL+"/verify/"+root.String()+"?name=a.bin"), chromedp.Click("#save"))
	b.until(t, `document.querySelector("#speed").textContent !== ""`)
	b.do(t, chromedp.Click("#stop"))
	b.until(t, `document.querySelector("#state").textContent === "Cancelled. Nothing is saved."`)
	testkit.Eventually(t, "nothing is left", func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	})
}
