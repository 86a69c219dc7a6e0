// Package text writes texts as lines of HTML pages.
package text

import (
	"bytes"
	"context"
	"html/template"
	"io"
	"iter"
	"strings"

	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
	"allium/protocols/b3"
)

// Lines returns the first n bytes of c, which are UTF-8, as lines of a page. It reads them again each time, and
// holds a few KiB of them at once. err becomes the error of the last time.
func Lines(ctx context.Context, c b3.Content, n int64, err *error) iter.Seq[template.HTML] {
	return func(yield func(template.HTML) bool) {
		w := &lineWriter{yield: yield}
		if *err = c.Copy(ctx, w, 0, n); *err == nil {
			w.end()
			*err = w.flush()
		}
	}
}

// linePiece is the maximum number of bytes of a text that lineWriter turns into HTML at once.
const linePiece = 4 << 10

// lineWriter turns a text into lines of a page. Carriage returns at the end of a line are left out, and other
// characters that mislead are written as numbers.
type lineWriter struct {
	yield   func(template.HTML) bool
	out     strings.Builder
	rest    []byte // the beginning of a character
	open    bool   // a line was begun
	returns int    // carriage returns that may be the end of the line
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	for at := 0; at < len(p); at += linePiece {
		if err := l.piece(p[at:min(at+linePiece, len(p))]); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

// piece writes a piece of the text.
func (l *lineWriter) piece(p []byte) error {
	if len(l.rest) > 0 {
		p = append(l.rest, p...)
		l.rest = nil
	}
	if whole := mediatype.WholeRunes(p); whole < len(p) {
		l.rest = bytes.Clone(p[whole:])
		p = p[:whole]
	}
	for len(p) > 0 {
		if !l.open {
			l.out.WriteString("<span>")
			l.open = true
		}
		n := bytes.IndexAny(p, "\r\n")
		if n < 0 {
			n = len(p)
		}
		if n > 0 {
			l.text(strings.Repeat("\r", l.returns) + string(p[:n]))
			l.returns = 0
		}
		if p = p[n:]; len(p) == 0 {
			break
		}
		if p[0] == '\r' {
			l.returns++
		} else {
			l.end()
		}
		p = p[1:]
	}
	return l.flush()
}

// text writes a part of a line.
func (l *lineWriter) text(s string) {
	l.out.WriteString(template.HTMLEscapeString(exchange.EscapeText(s)))
}

// end ends the line, if there is one.
func (l *lineWriter) end() {
	if l.open {
		l.out.WriteString("\n</span>")
	}
	l.open, l.returns = false, 0
}

// flush passes on what was written.
func (l *lineWriter) flush() error {
	if l.out.Len() > 0 && !l.yield(template.HTML(l.out.String())) {
		return io.ErrClosedPipe // the template failed
	}
	l.out.Reset()
	return nil
}
