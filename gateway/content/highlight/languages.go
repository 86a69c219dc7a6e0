package highlight

import (
	"cmp"
	_ "embed" // the keywords
	"path"
	"strings"
	"sync"
)

// keywordsSource has a line for each language: its name and its keywords.
//
//go:embed keywords.txt
var keywordsSource string

// Of returns the language of a file by its name, or nil for one that is not known.
func Of(name string) *Language {
	name = strings.ToLower(name)
	return cmp.Or(byName()[name], byName()[path.Ext(name)])
}

// Comments and strings that several languages have.
var (
	double   = quote{`"`, `"`, String, '\\', false}
	single   = quote{`'`, `'`, String, '\\', false}
	raw      = quote{"`", "`", String, 0, true}
	template = quote{"`", "`", String, '\\', true}
	triple   = quote{`"""`, `"""`, String, '\\', true}
	starred  = quote{"/*", "*/", Comment, 0, true}
)

// words returns the keywords of languages by their names in keywords.txt.
func words(languages ...string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(keywordsSource) {
		name, rest, _ := strings.Cut(line, " ")
		for _, language := range languages {
			if name != language {
				continue
			}
			for w := range strings.FieldsSeq(rest) {
				set[w] = true
			}
		}
	}
	return set
}

// slashed returns a language with the comments of C. Its quotes are longest first.
func slashed(keywords map[string]bool, preamble string, quotes ...quote) *Language {
	return &Language{
		line: []string{"//"}, quotes: append(quotes, starred, double, single), words: keywords, preamble: preamble,
	}
}

// hashed returns a language with comments that begin with "#".
func hashed(keywords map[string]bool, preamble string, quotes ...quote) *Language {
	return &Language{
		line: []string{"#"}, spaced: true, quotes: append(quotes, double, single), words: keywords, preamble: preamble,
	}
}

// byName returns the languages by the ending of a file's name, or by the whole of it, in lower case.
var byName = sync.OnceValue(func() map[string]*Language {
	script := slashed(words("script"), "@", template)
	script.wordly = "$"
	style := &Language{quotes: []quote{starred, double, single}, wordly: "-", preamble: "@", words: words("css")}
	settings := hashed(words("settings"), "")
	settings.line, settings.wordly, settings.apart = []string{"#", ";"}, "-", true
	languages := map[string]*Language{
		".c .h":                       slashed(words("c"), "#"),
		".cc .cpp .cxx .hpp .hh .ino": slashed(words("c", "c++"), "#"),
		".cs":                         slashed(words("java", "c#"), "#"),
		".css .scss .less":            style,
		".go":                         slashed(words("go"), "", raw),
		".java":                       slashed(words("java"), "@", triple),
		".js .mjs .cjs .jsx":          script,
		".ts .mts .tsx":               script,
		".kt .kts":                    slashed(words("java", "kotlin"), "@", quote{`"""`, `"""`, String, 0, true}),
		".php":                        slashed(words("php"), "$"),
		".proto":                      slashed(words("proto"), ""),
		".swift":                      slashed(words("swift"), "@#", triple),
		".json .geojson .webmanifest": {quotes: []quote{double}, words: words("json")},
		".pl .pm":                     hashed(words("perl"), "$@%"),
		".r":                          hashed(words("r"), ""),
		".rb":                         hashed(words("ruby"), "@:"),
		"makefile .mk":                hashed(words("make"), ""),
		"dockerfile containerfile":    hashed(words("docker"), ""),
		".yaml .yml .toml .ini .conf": settings,
		".cfg .service .properties":   settings,
		".py":                         hashed(words("python"), "@", triple, quote{`'''`, `'''`, String, '\\', true}),
		".rs": {
			line: []string{"//"}, words: words("rust"),
			quotes: []quote{starred, {`"`, `"`, String, '\\', true}}, // a single quote is a lifetime too
		},
		".lua": {words: words("lua"), quotes: []quote{
			{"--[[", "]]", Comment, 0, true}, {"--", "\n", Comment, 0, false}, {"[[", "]]", String, 0, true},
			double, single,
		}},
		".hs": {line: []string{"--"}, words: words("haskell"), quotes: []quote{{"{-", "-}", Comment, 0, true}, double}},
		".sh .bash .zsh .profile .bashrc": {
			line: []string{"#"}, spaced: true, words: words("shell"), preamble: "$",
			quotes: []quote{{`"`, `"`, String, '\\', true}, {"'", "'", String, 0, true}},
		},
		".sql": {line: []string{"--"}, fold: true, words: words("sql"), quotes: []quote{
			starred, {"'", "'", String, 0, true}, {`"`, `"`, String, 0, true},
		}},
		".html .htm .xhtml .xml .svg .vue": {markup: true, quotes: []quote{
			{"<!--", "-->", Comment, 0, true}, {`"`, `"`, String, 0, true}, {"'", "'", String, 0, true},
		}},
	}
	all := map[string]*Language{}
	for names, l := range languages {
		for name := range strings.FieldsSeq(names) {
			all[name] = l
		}
	}
	return all
})
