package term

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"allium/gateway/api"
	"allium/internal/printable"
)

const (
	progressAfter = time.Second            // work that takes less draws no bar
	progressEvery = 100 * time.Millisecond // shortest time between two drawings
)

// Progress returns a function that reports progress and one that removes the
// bar. The bar appears on w once the work has taken a second, and is labelled
// with what. note returns what to add to the label, given the bytes that an
// earlier run had and the total. bytes says that the numbers are bytes. Both
// functions may be called from several goroutines; finish may be called twice.
func Progress(
	w io.Writer, what string, bytes bool, note func(resumed, total int64) string,
) (report api.ProgressFunc, finish func()) {
	var (
		mu      sync.Mutex
		bar     *progressbar.ProgressBar
		next    = time.Now().Add(progressAfter)
		total   int64
		resumed int64 // as the label says it
	)
	what = printable.Name(what)
	report = func(p api.Progress) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Before(next) {
			return
		}
		next = now.Add(progressEvery)
		most := p.TotalBytes
		if most == 0 {
			most = -1 // a spinner with a rate
		}
		if bar == nil {
			bar = progressbar.NewOptions64(most,
				progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
				progressbar.OptionShowBytes(bytes), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
			total = most
		}
		if most != total {
			bar.ChangeMax64(most)
			total = most
		}
		if p.Resumed != resumed {
			resumed = p.Resumed
			bar.Describe(what + note(p.Resumed, p.TotalBytes))
		}
		_ = bar.Set64(p.Bytes) // drawing the bar may fail; the work goes on
	}
	finish = func() {
		mu.Lock()
		defer mu.Unlock()
		if bar != nil {
			_ = bar.Clear()
		}
	}
	return report, finish
}
