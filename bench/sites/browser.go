package sites

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a Chromium that loads pages.
type tab struct {
	ctx     context.Context
	version string
	close   func()
}

// findBrowser returns the path of a Chromium or Chrome.
func findBrowser() (path string, err error) {
	for _, name := range []string{"google-chrome-stable", "google-chrome", "chromium-browser", "chromium"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// openBrowser starts Chromium with an empty profile in dir, and nothing that talks to the network by itself.
func openBrowser(ctx context.Context, program, dir string) (*tab, error) {
	ctx, stop := chromedp.NewExecAllocator(ctx, chromedp.ExecPath(program), chromedp.UserDataDir(dir),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := chromedp.NewContext(ctx)
	b := &tab{ctx: ctx, close: func() { _ = chromedp.Cancel(ctx); cancel(); stop() }}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		b.close()
		return nil, err
	}
	v, err := chromedp.CallBrowser(ctx, browser.GetVersion, cdp.Empty{})
	if err != nil {
		b.close()
		return nil, err
	}
	b.version = v.Product
	return b, nil
}

// loaded waits until a page is loaded. It returns the milliseconds since the navigation began, and how many of its
// files came with 200.
const loaded = `new Promise((done) => {
	const look = () => {
		const [page] = performance.getEntriesByType("navigation");
		if (!page.loadEventEnd) return setTimeout(look, 5);
		const files = performance.getEntriesByType("resource").filter((f) => f.responseStatus === 200);
		done([page.loadEventEnd, files.length]);
	};
	look();
})`

// load loads a page with all its files, without anything that the browser knew, and returns how many milliseconds that
// took it.
func (b *tab) load(url string) (took float64, err error) {
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		return 0, err
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](loaded,
		func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	if err != nil {
		return 0, err
	}
	if len(got) != 2 || got[1] != 3*filesOfKind {
		return 0, fmt.Errorf("%s: of %d files came %v", url, 3*filesOfKind, got)
	}
	return got[0], nil
}
