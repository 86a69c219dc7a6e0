package csvtable_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"allium/gateway/content/csvtable"
)

func TestRender(t *testing.T) {
	const head, end = "<thead><tr>", "</tr></thead>\n<tbody>\n"
	for source, want := range map[string]string{
		"a,b\n1,2\n":       head + `<th scope="col">a</th><th scope="col">b</th>` + end + "<tr><td>1</td><td>2</td></tr>\n",
		"\uFEFFa;b\r\n1;2": head + `<th scope="col">a</th><th scope="col">b</th>` + end + "<tr><td>1</td><td>2</td></tr>\n",
		"a|\"b\"\"c\nd\"":  head + `<th scope="col">a</th><th scope="col">b&#34;c<br>d</th>` + end,
		"a\n=1+1\n<b>\n":   head + `<th scope="col">a</th>` + end + "<tr><td>=1+1</td></tr>\n<tr><td>&lt;b&gt;</td></tr>\n",
		"a,\nb\u202e": head + `<th scope="col">a</th><th scope="col"><span class="hidden">no name</span></th>` + end +
			"<tr><td>b\\u{202E}</td></tr>\n",
		"x\"y,z\n\"open": head + `<th scope="col">x&#34;y</th><th scope="col">z</th>` + end + "<tr><td>open</td></tr>\n",
	} {
		got, err := csvtable.Render([]byte(source), false, false)
		if err != nil || string(got.Rows) != want+"</tbody>\n" || got.Notice() != "" {
			t.Errorf("%q: %v\n got %+v\nwant %q", source, err, got, want)
		}
	}
	if got, err := csvtable.Render([]byte("a\tb,c\n1\t2\n3\t4 and more"), true, true); err != nil || got.Columns != 2 ||
		got.Count != 2 || got.Notice() != "The table has the first 2 rows and no more. The file has all." {
		t.Errorf("the beginning of a table: %+v %v", got, err)
	}
	for _, source := range []string{"", "\n\n", "\uFEFF"} {
		if _, err := csvtable.Render([]byte(source), false, false); !errors.Is(err, csvtable.ErrNoTable) {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// TestBounds: whatever a table has, its page is bounded and says what it leaves out.
func TestBounds(t *testing.T) {
	const all = 256 << 10
	for name, c := range map[string]struct{ source, notice string }{
		"rows":    {strings.Repeat("a,b\n", 2000), "the first 1000 rows"},
		"columns": {strings.Repeat(strings.Repeat("x,", 9_999)+"x\n", 10), "the first 64 columns"},
		"cell":    {"a,b\n" + strings.Repeat("é", all/2), "the first 1000 bytes of a cell"},
		"quote":   {`a,"` + strings.Repeat("b\n,", all/3), "the first 1000 bytes of a cell"},
		"quotes":  {strings.Repeat(`"`, all), "bytes of a cell"},
		"lines":   {strings.Repeat("\n", all-1) + "a", ""},
		"escapes": {
			strings.Repeat(strings.Repeat("\u202e", 300)+",", 60) + "\n" +
				strings.Repeat(strings.Repeat("\x01", 990)+",", 260), "columns",
		},
	} {
		got, err := csvtable.Render([]byte(c.source), false, false)
		if err != nil || !strings.Contains(got.Notice(), c.notice) || len(got.Rows) > 2*csvtable.MaxHTML ||
			got.Count > csvtable.MaxRows || got.Columns > csvtable.MaxColumns {
			t.Errorf("%s: %d bytes, %d rows, %d columns, %q, %v", name, len(got.Rows), got.Count, got.Columns, got.Notice(), err)
		}
	}
}

// FuzzRender: no text makes anything but a table of text, within its bounds.
func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"a,b\n1,2", "<script>,\"</td>\"\n", "\"", "\"\"\"", "a\"b\n", ";;;\n\t\t\n", "=cmd|' /C calc'!A0", "\r\n\r",
		"a\rb,\xff",
		"\uFEFF\"a\nb\"", strings.Repeat(",", 200), "&lt;&#0;,\x00",
	} {
		f.Add(s, false, false)
		f.Add(s, true, true)
	}
	may := map[string]bool{"thead": true, "tbody": true, "tr": true, "th": true, "td": true, "br": true, "span": true}
	f.Fuzz(func(t *testing.T, source string, tabs, cut bool) {
		got, err := csvtable.Render([]byte(source), tabs, cut)
		if err != nil {
			return
		}
		z := html.NewTokenizer(strings.NewReader(string(got.Rows)))
		depth := 0
		for z.Next() != html.ErrorToken {
			token := z.Token()
			switch token.Type {
			case html.StartTagToken:
				depth++
			case html.EndTagToken:
				depth--
			case html.TextToken:
				continue
			}
			if token.Data == "br" {
				depth--
			}
			if !may[token.Data] {
				t.Errorf("%q gives %q", source, token)
			}
			for _, a := range token.Attr {
				if a.Key != "scope" && (a.Key != "class" || a.Val != "hidden") {
					t.Errorf("%q gives %q", source, token)
				}
			}
		}
		if !errors.Is(z.Err(), io.EOF) || depth != 0 {
			t.Errorf("%q: %v, %d elements are open", source, z.Err(), depth)
		}
	})
}
