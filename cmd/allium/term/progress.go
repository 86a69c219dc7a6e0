package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/internal/printable"
)

const (
	progressAfter = time.Second            // work that takes less shows nothing
	progressEvery = 100 * time.Millisecond // shortest time between two drawings
	progressIdle  = time.Second            // time after which a line is drawn again without a report
	rateWindow    = 5 * time.Second        // time over which the rate is measured
	rateFrom      = 300 * time.Millisecond // shortest time from which a rate is known
	stalledAfter  = 3 * time.Second        // time without progress after which the line says so
)

// Progress shows in the last line of a terminal how far work has come. The line appears once the work has
// taken a second. The rate leaves out what an earlier run had, and falls to 0 if no reports come; the line says
// then for how long nothing has come. Several goroutines may use it. A nil Progress shows nothing.
type Progress struct {
	columns int
	what    string
	bytes   bool

	// lock: held across I/O, because two writers would mix their lines
	mu       sync.Mutex // guards all below; lock: leaf
	line     *Line
	timer    *time.Timer // draws although no report came
	next     time.Time   // earliest time of the next drawing
	latest   api.Progress
	came     time.Time // when the latest differed from the one before; zero: never
	samples  []sample  // of the last rateWindow, at most one for each drawing
	finished bool
}

// NewProgress begins to show work in a terminal that has so many columns. The line begins with what. bytes
// says that the numbers are bytes, else they are objects. The caller calls Finish.
func NewProgress(w io.Writer, columns int, what string, bytes bool) *Progress {
	p := &Progress{
		line: NewLine(w, columns), columns: columns, what: printable.Name(what), bytes: bytes,
		next: time.Now().Add(progressAfter), samples: []sample{{at: time.Now()}},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(progressAfter, p.idle)
	return p
}

// sample is the number of bytes or objects that this run had done at a time.
type sample struct {
	at   time.Time
	done int64
}

// Report says how far the work has come.
func (p *Progress) Report(r api.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.bytes {
		r.Bytes, r.TotalBytes = r.Objects, r.TotalObjects
	}
	now := time.Now()
	if r.Bytes != p.latest.Bytes || r.Objects != p.latest.Objects {
		p.came = now
	}
	p.latest = r
	if !now.Before(p.next) {
		p.draw(now)
	}
}

// idle draws although no report came.
func (p *Progress) idle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw(time.Now())
}

// Clear removes the line, so that something else can be written. The next report draws it again.
func (p *Progress) Clear() {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.line.Clear()
	}
}

// Finish removes the line for good.
func (p *Progress) Finish() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	p.timer.Stop()
	p.line.Clear()
}

// draw shows the latest report. The caller holds mu.
func (p *Progress) draw(now time.Time) {
	if p.finished {
		return
	}
	p.next = now.Add(progressEvery)
	p.timer.Reset(progressIdle)
	p.samples = append(p.samples, sample{now, max(0, p.latest.Bytes-p.latest.Resumed)})
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateWindow {
		p.samples = p.samples[1:]
	}
	rate := -1.0
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	if over := last.at.Sub(first.at); over >= rateFrom {
		rate = max(0, float64(last.done-first.done)) / over.Seconds()
	}
	what := p.what
	if still := now.Sub(p.came); !p.came.IsZero() && still >= stalledAfter {
		what = fmt.Sprintf("nothing for %s, %s", shortTime(still), what)
	}
	p.line.Set(progressLine(p.columns-1, what, p.latest, rate, p.bytes))
}

// progressLine returns what a line of a number of cells says: the most that fits. rate is done in a second, and
// below 0 if it is not known.
func progressLine(cells int, what string, p api.Progress, rate float64, bytes bool) string {
	number := func(n int64) string {
		if bytes {
			return limits.Bytes(n).Human()
		}
		return fmt.Sprint(n)
	}
	speed, left := "", ""
	if rate >= 0 {
		speed = number(int64(rate)) + "/s"
	}
	if p.TotalBytes > p.Bytes && rate > 0 {
		left = shortTime(time.Duration(float64(p.TotalBytes-p.Bytes) / rate * float64(time.Second)))
	}
	if !bytes && p.Bytes == 0 && p.TotalBytes == 0 {
		return Cut(what, cells) // nothing is counted
	}
	if p.TotalBytes <= 0 {
		return join(what, cells, number(p.Bytes), speed)
	}
	done := min(p.Bytes, p.TotalBytes)
	percent := fmt.Sprintf("%d %%", int64(float64(done)/float64(p.TotalBytes)*100))
	wide := []string{percent, number(done) + " of " + number(p.TotalBytes), speed, left}
	if left != "" {
		wide[3] += " left"
	}
	if text := join("", 0, wide...); Cells(what)+2+Cells(text)+minBar+4 <= cells {
		space := cells - Cells(what) - Cells(text) - 6 // two blanks on each side, and the ends
		fill := int(float64(done) / float64(p.TotalBytes) * float64(space))
		return what + "  [" + strings.Repeat("#", fill) + strings.Repeat(".", space-fill) + "]  " + text
	} else if Cells(what)+2+Cells(text) <= cells {
		return what + "  " + text
	}
	return join(what, cells, number(done)+"/"+number(p.TotalBytes), speed, left)
}

const (
	minBar   = 10 // cells of the shortest bar
	minLabel = 4  // cells of the shortest label
)

// join joins parts, without the empty ones, behind label. It cuts or leaves out the label so that all fits
// in cells.
func join(label string, cells int, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	text := strings.Join(kept, "  ")
	if space := cells - Cells(text) - 2; space >= minLabel {
		return Cut(label, space) + "  " + text
	}
	return text
}

// shortTime is a time for people in at most six characters, at least a second.
func shortTime(d time.Duration) string {
	d = max(d.Round(time.Second), time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int64(d.Hours()/24))
}
