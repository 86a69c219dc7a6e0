package mediatype

import (
	"strings"
	"testing"
)

func TestDeclaredCharset(t *testing.T) {
	t.Parallel()
	const page, text, styles = "text/html" + DeclaredUTF8, "text/plain" + DeclaredUTF8, "text/css" + DeclaredUTF8
	long := strings.Repeat("a", int(SniffLen)-1)
	for _, c := range []struct {
		name, bytes string
		cut         bool // the object has more
		as, want    string
	}{
		{"nothing", "", false, text, text},
		{"ASCII", "plain", false, text, text},
		{"UTF-8", "caf\u00e9", false, text, text},
		{"Latin-1", "caf\xe9 au lait", false, text, "text/plain"},
		{"Latin-1 at the end", "caf\xe9", false, text, "text/plain"},
		{"a rune that the prefix cuts", long + "\xc3", true, text, text},
		{"a rune that the file cuts", long + "\xc3", false, text, "text/plain"},
		{"no rune begins so", long + "\xff", true, text, "text/plain"},
		{"a rune that ends too often", long[:20] + "\xc3\xa9\xa9", true, text, "text/plain"},
		{"UTF-16", "\xff\xfea\x00", false, text, "text/plain"},
		{"a type that declares nothing", "caf\xe9", false, "application/json", "application/json"},

		{"a page without a charset", "<!doctype html><p>caf\u00e9", false, page, page},
		{"a page in Latin-1", "<p>caf\xe9", false, page, "text/html"},
		{"meta charset", `<!doctype html><meta charset="windows-1250"><p>a`, false, page, "text/html"},
		{"in capitals and without quotes", "<META CHARSET=ISO-2022-JP><p>a", false, page, "text/html"},
		{"meta charset, closed", "<meta charset='koi8-r' />", false, page, "text/html"},
		{"it names UTF-8", "<meta charset=UTF-8><p>caf\u00e9", false, page, page},
		{"it names UTF-8 and is not", "<meta charset=utf-8><p>caf\xe9", false, page, "text/html"},
		{
			"http-equiv", `<meta http-equiv="Content-Type" content="text/html; Charset = Shift_JIS">`, false, page,
			"text/html",
		},
		{"http-equiv behind", `<meta content="text/html;charset='big5'" http-equiv=content-type>`,
			false, page, "text/html"},
		{"http-equiv of UTF-8", `<meta http-equiv=content-type content="text/html; charset=utf-8">`, false, page, page},
		{"another meta", `<meta name=description content="charset=big5">`, false, page, page},
		{"no charset in it", `<meta http-equiv=content-type content="text/html">`, false, page, page},
		{"the first one counts", "<meta charset=utf-8><meta charset=big5>", false, page, page},
		{"in a comment", "<!-- <meta charset=big5> -->a", false, page, page},
		{"in a script", "<script>'<meta charset=big5>'</script>", false, page, page},
		{"too late", strings.Repeat(" ", pageCharsetLen) + "<meta charset=big5>", false, page, page},
		{"begun too late", "<p>" + strings.Repeat(" ", pageCharsetLen) + "<meta charset=big5>", false, page, page},
		{"an XML declaration", `<?xml version="1.0" encoding='iso-8859-2'?><html/>`, false, page, "text/html"},
		{"an XML declaration of UTF-8", `<?xml version="1.0" encoding="UTF-8"?><html/>`, false, page, page},
		{"the mark wins", utf8Mark + "<meta charset=big5>", false, page, page},
		{"what a page names, in a text", "<meta charset=big5>", false, text, text},

		{"a style sheet", `@charset "iso-8859-15"; a{}`, false, styles, "text/css"},
		{"a style sheet in UTF-8", `@charset "utf-8"; a{}`, false, styles, styles},
		{"XML names its own", "<?xml version='1.0'?><a/>", false, "text/xml" + DeclaredUTF8, "text/xml"},
	} {
		if got := CharsetOf([]byte(c.bytes), c.cut).Declare(c.as); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
