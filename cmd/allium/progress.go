package main

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"allium/gateway/api"
	"allium/internal/printable"
)

// Progress is drawn for what takes longer than this, and no oftener than that.
const (
	progressAfter = time.Second
	progressEvery = 100 * time.Millisecond
)

// progress returns a function to report progress with and one to call at the
// end. On a terminal a bar appears once the work has taken a second; in a pipe
// or with -q nothing is ever drawn.
func (a *app) progress(what string) (api.ProgressFunc, func()) { return a.bar(what, true) }

// bar is progress of what is counted, in bytes or not.
func (a *app) bar(what string, bytes bool) (api.ProgressFunc, func()) {
	if !a.terminal || a.quiet || a.json {
		return nil, func() {}
	}
	var (
		mu    sync.Mutex
		bar   *progressbar.ProgressBar
		next  = time.Now().Add(progressAfter)
		total int64
		told  int64 // bytes that were said to be resumed
	)
	report := func(p api.Progress) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Before(next) {
			return
		}
		next = now.Add(progressEvery)
		max := p.TotalBytes
		if max == 0 {
			max = -1 // a spinner with a rate
		}
		if bar == nil {
			bar = progressbar.NewOptions64(max, progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(printable.Name(what)),
				progressbar.OptionShowBytes(bytes), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
			total = max
		}
		if max != total {
			bar.ChangeMax64(max)
			total = max
		}
		if p.Resumed != told {
			told = p.Resumed
			bar.Describe(printable.Name(what) + resumed(p.Resumed, p.TotalBytes))
		}
		_ = bar.Set64(p.Bytes)
	}
	finish := func() {
		mu.Lock()
		defer mu.Unlock()
		if bar != nil {
			_ = bar.Clear()
		}
	}
	return report, finish
}
