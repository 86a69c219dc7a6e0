package text_test

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"allium/gateway/content/highlight"
	"allium/gateway/content/text"
)

// content is a text in memory, which is copied in pieces.
type content struct {
	p     []byte
	piece int
}

func (c content) Size() int64  { return int64(len(c.p)) }
func (c content) Close() error { return nil }

func (c content) Copy(_ context.Context, w io.Writer, start, end int64) error {
	for p := c.p[start:end]; len(p) > 0; {
		n := min(c.piece, len(p))
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// lines returns the page of a text, and the longest piece of it.
func lines(t testing.TB, source, name string, piece int) (page string, longest int) {
	t.Helper()
	var out strings.Builder
	var err error
	c := content{[]byte(source), piece}
	for part := range text.Lines(context.Background(), c, c.Size(), highlight.Of(name), &err) {
		out.WriteString(string(part))
		longest = max(longest, len(part))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), longest
}

// shown returns what a browser shows of a page, and its elements.
func shown(page string) (read, elements string) {
	var text, names strings.Builder
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type == html.TextToken {
			text.WriteString(token.Data)
			continue
		}
		names.WriteString(token.Data + " ")
	}
	return text.String(), names.String()
}

func TestLines(t *testing.T) {
	anchor := regexp.MustCompile(`<span id="L(\d+)"><a href="#L(\d+)" tabindex="-1" aria-label="Line (\d+)"></a>`)
	for source, want := range map[string]string{
		"":               "",
		"a":              "[1]a\n</span>",
		"a\n\nb\r\n":     "[1]a\n</span>[2]\n</span>[3]b\n</span>",
		"\r\r\nx\ry\r":   "[1]\n</span>[2]x\\u{000D}y\n</span>",
		"<b>&\u202e\x1b": `[1]&lt;b&gt;&amp;\u{202E}\u{001B}` + "\n</span>",
		"if \"a\nb\" // c": "[1]<i class=\"k\">if</i> <i class=\"s\">&#34;a</i>\n</span>" +
			"[2]b<i class=\"s\">&#34; // c</i>\n</span>",
	} {
		for piece := 1; piece < 6; piece++ {
			page, _ := lines(t, source, "a.go", piece)
			if got := anchor.ReplaceAllString(page, "[$1]"); got != want {
				t.Errorf("%q in pieces of %d:\n got %q\nwant %q", source, piece, got, want)
			}
		}
	}
}

// TestLongLines: a long line is plain, whole, and never held.
func TestLongLines(t *testing.T) {
	for name, source := range map[string]string{
		"one line": strings.Repeat("é1\"", 1<<20), "returns": strings.Repeat("\r", 100_000) + "\n",
		"ends":   strings.Repeat("a\r\n", 50_000),
		"tokens": strings.Repeat("1 ", 200_000), "many": strings.Repeat("1 if\n", 60_000),
		"bound": strings.Repeat("x", 4095) + "é\r\ny",
	} {
		page, longest := lines(t, source, "a.go", 16<<10)
		read, _ := shown(page)
		read = strings.ReplaceAll(read, `\u{000D}`, "")
		if want := strings.ReplaceAll(strings.TrimSuffix(source, "\n"), "\r", "") + "\n"; read != want {
			t.Errorf("%s: %d bytes are shown of %d", name, len(read), len(want))
		}
		if longest > 128<<10 || strings.Count(page, "<i ") > 50_000 {
			t.Errorf("%s: %d bytes at once, %d colours", name, longest, strings.Count(page, "<i "))
		}
	}
}

// FuzzLines: every text is shown as it is but for what misleads, in elements of a page's text and no others.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"<script>\"</script>\"", "a\r\nb", "/*\n<i>*/", "\"\\", "\xc3\xa9\r"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, source string, piece int) {
		source = strings.ToValidUTF8(source, "")
		page, _ := lines(t, source, "a.go", max(1, piece&0xff))
		_, elements := shown(page)
		if left := strings.NewReplacer("span ", "", "a ", "", "i ", "").Replace(elements); left != "" {
			t.Errorf("%q gives %s", source, left)
		}
		whole, _ := lines(t, source, "a.go", 1<<20)
		if page != whole {
			t.Errorf("%q in pieces of %d is another page", source, piece)
		}
	})
}

func TestEscape(t *testing.T) {
	for source, want := range map[string]string{
		"": "", "a\r\n<b>\n\nc": "a\n&lt;b&gt;\n\nc", "x\u202e\ty\n": `x\u{202E}` + "\ty\n",
	} {
		if got := string(text.Escape([]byte(source))); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}
