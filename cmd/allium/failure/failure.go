// Package failure writes what a person reads when a command fails.
//
// The sentence has the form "what failed: why. What to do." Of writes it, and
// nothing else in the program does. It takes each part from the error's type:
//
//   - what failed, from the task of the command and its first argument;
//   - why, from a [Usage] error, an address error, the operating system's error, or else
//     from the first error in the chain that has an outcome. By the rule of
//     [status.Error] its message says why and then, after a semicolon, what to do;
//   - what to do, from the same error, or else from the outcome.
//
// The errors around that one say where in the program it happened. They are not
// in the sentence; Failure.Chain lists them for --log-level debug.
//
// One failure, walked through: `allium get b3:…` returns an error with the
// outcome not_found. Of finds its outcome with OutcomeOf, its reason with
// explain, and joins both into "cannot get: b3:3ce6…1f0a is not in the store, and
// no node runs that could fetch it. Start one with `allium run`."
package failure

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"allium/internal/printable"
	"allium/protocols/status"
)

// Task describes the work of a command, in words that follow "cannot".
type Task struct {
	Verb    string // such as "connect"; empty if the error names what failed itself
	Link    string // word between the verb and the subject, such as "to"; may be empty
	Subject string // what the verb acts on, such as an address; may be empty
	Help    string // the command line that prints the command's help
	Advice  string // what to do, in place of what the error says; usually empty
	Why     bool   // `allium why` knows the lookup that an error names
}

// Failure is an error as a command reports it.
type Failure struct {
	Outcome  status.Outcome
	Sentence string        // for people; ends with a period or a question mark
	Report   status.Report // for --json: the sentence and the error's members
	Chain    []string      // each error of the chain with its type, outermost first
}

// Of returns how a command with task reports err, which is not nil. Characters
// that a terminal would act on are escaped in all texts.
func Of(err error, task Task) Failure {
	o := OutcomeOf(err)
	var sentences []string
	for _, one := range parts(err) {
		sentences = append(sentences, sentence(one, task, OutcomeOf(one)))
		task.Verb = "" // named once
	}
	f := Failure{Outcome: o, Sentence: printable.Text(Short(strings.Join(sentences, "\n"))),
		Report: status.ReportOf(err)}
	f.Report.Reason, f.Report.Message = o.String(), f.Sentence
	for _, e := range chain(err) {
		f.Chain = append(f.Chain, printable.Text(fmt.Sprintf("%T: %s", e, e.Error())))
	}
	return f
}

// OutcomeOf is [status.Of], except that an error of the operating system has the outcome of
// [status.OfFile]. A command works on the files of its user; a node works on its own files.
func OutcomeOf(err error) status.Outcome {
	if !status.HasOutcome(err) {
		if o, ok := status.OfFile(err); ok {
			return o
		}
	}
	return status.Of(err)
}

// parts returns the errors that err joins, or err alone. Errors with equal
// messages count once.
func parts(err error) []error {
	if e, ok := err.(*status.Error); ok { //nolint:errorlint // only at the top
		return listed(e)
	}
	joined, ok := err.(interface{ Unwrap() []error }) // only a join at the top is a list
	if !ok {
		return []error{err}
	}
	var texts []string
	var all []error
	for _, e := range joined.Unwrap() {
		texts = append(texts, e.Error())
		for _, p := range parts(e) {
			if !contains(all, p) {
				all = append(all, p)
			}
		}
	}
	if strings.Join(texts, "\n") != err.Error() {
		return []error{err} // a separate message with several causes
	}
	return all
}

// listed returns the errors that e joins under its outcome, or e alone.
func listed(e *status.Error) []error {
	joined, ok := e.Err.(interface{ Unwrap() []error }) // only a join right below is a list
	if !ok || len(joined.Unwrap()) < 2 || !strings.HasSuffix(e.Message, e.Err.Error()) {
		return []error{e}
	}
	var all []error
	for _, cause := range joined.Unwrap() {
		all = append(all, &status.Error{Outcome: e.Outcome, Message: cause.Error(), Detail: e.Detail, Err: cause})
	}
	return all
}

func contains(all []error, err error) bool {
	for _, e := range all {
		if e.Error() == err.Error() {
			return true
		}
	}
	return false
}

// chain lists err and its causes, depth first.
func chain(err error) []error {
	if err == nil {
		return nil
	}
	list := []error{err}
	switch e := err.(type) { //nolint:errorlint // walks the chain itself
	case interface{ Unwrap() error }:
		list = append(list, chain(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			list = append(list, chain(cause)...)
		}
	}
	return list
}

// sentence joins what failed, why and what to do. Lines after the first of a
// reason are a list, and stay below the sentence.
func sentence(err error, task Task, o status.Outcome) string {
	r := explain(err)
	head, list, isList := strings.Cut(r.why, "\n")
	if !r.finding && task.Verb != "" && !strings.HasPrefix(head, "cannot ") {
		what := "cannot " + task.Verb
		if subject := printable.Name(task.Subject); subject != "" && !names(Short(head), Short(subject)) {
			what = strings.TrimRight(what+" "+task.Link, " ") + " " + subject
		}
		head = what + ": " + head
	}
	head = ended(head, isList)
	do := cmp.Or(task.Advice, r.do)
	if do == "" && !isList && !advised(r.why) {
		do = adviceFor(o, task)
	}
	if do != "" {
		head += " " + ended(upper(do), isList)
	}
	if isList {
		head += "\n" + list
	}
	return head
}

// names reports whether text has subject as a whole word.
func names(text, subject string) bool {
	for i := 0; ; {
		at := strings.Index(text[i:], subject)
		if at < 0 {
			return false
		}
		i += at + len(subject)
		before, _ := utf8.DecodeLastRuneInString(text[:i-len(subject)])
		after, _ := utf8.DecodeRuneInString(text[i:])
		if !partOfWord(before) && !partOfWord(after) {
			return true
		}
	}
}

func partOfWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '/')
}

// advised reports whether a reason has a second sentence, which says what to do.
func advised(why string) bool { return strings.Contains(why, ". ") }

// ended returns text with a period, unless it ends a sentence. A text that begins a
// list may end with a colon.
func ended(text string, isList bool) string {
	text = strings.TrimRight(text, " ")
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".?!") || isList && strings.HasSuffix(text, ":") {
		return text
	}
	return text + "."
}

// upper returns text with its first letter in upper case.
func upper(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// Interrupted reports whether a signal ended the command: its context is done
// and err says that it was canceled.
func Interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && status.Of(err) == status.Canceled
}
