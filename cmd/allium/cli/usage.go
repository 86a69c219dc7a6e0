package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"allium/cmd/allium/failure"
	"allium/internal/suggest"
)

// Group runs a command that only holds others: it prints its help. A word that
// is none of its commands is an error.
func Group(cmd *cobra.Command, got []string) error {
	if len(got) > 0 {
		return UnknownCommand(cmd, got[0])
	}
	return cmd.Help()
}

// UnknownCommand returns the error of a word that is no command below cmd.
func UnknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	all := helpOf(cmd) + " lists all"
	if near := suggest.Nearest(word, names); near != "" {
		all = fmt.Sprintf("did you mean %q? %s", near, all)
	}
	return failure.NewUsage(all, "cannot run `%s %s`: there is no command %q", cmd.CommandPath(), word, word)
}

// FlagError returns the error of a flag that cmd cannot take.
func FlagError(cmd *cobra.Command, err error) error {
	see := "see " + helpOf(cmd)
	var none *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &none):
		name := none.GetSpecifiedName()
		if none.GetSpecifiedShortnames() != "" {
			return failure.NewUsage(see, "there is no flag -%s", name)
		}
		var names []string
		add := func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		cmd.Flags().VisitAll(add)
		cmd.InheritedFlags().VisitAll(add)
		if near := suggest.Nearest(name, names); near != "" {
			see = "did you mean --" + near + "? " + upperSee(see)
		}
		return failure.NewUsage(see, "there is no flag --%s", name)
	case errors.As(err, &value):
		why := errors.Unwrap(value)
		return failure.NewUsage(see, "--%s is %q: %s", value.GetFlag().Name, value.GetValue(), plainValue(why))
	case errors.As(err, &missing):
		return failure.NewUsage(see, "--%s needs a value", missing.GetFlag().Name)
	}
	return failure.NewUsage(see, "%v", err)
}

func upperSee(see string) string { return "S" + see[1:] }

// plainValue says what is wrong with a flag's value, without the names of the
// functions that parsed it.
func plainValue(err error) string {
	var number interface{ Unwrap() error }
	if errors.As(err, &number) && strings.HasPrefix(err.Error(), "strconv.") {
		return number.Unwrap().Error()
	}
	return err.Error()
}

// helpOf is the command line that prints cmd's help, as it is quoted.
func helpOf(cmd *cobra.Command) string { return "`" + cmd.CommandPath() + " --help`" }

// NoArgs is for commands without arguments.
func NoArgs(cmd *cobra.Command, got []string) error {
	switch {
	case len(got) == 0:
		return nil
	case cmd.HasSubCommands():
		return UnknownCommand(cmd, got[0])
	default:
		return failure.NewUsage("see "+helpOf(cmd), "`%s` takes no arguments, and %q is one", cmd.CommandPath(), got[0])
	}
}

// OneUnless checks that a command got one argument, or with the flag none.
func OneUnless(flag *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if *flag {
			return Args(cobra.NoArgs)(cmd, got)
		}
		return Args(cobra.ExactArgs(1))(cmd, got)
	}
}

// maxDays is the longest life of what a command signs, in days.
const maxDays = 365

// CheckDays refuses a --days below 1 or above a year.
func CheckDays(days int) error {
	if days < 1 || days > maxDays {
		return failure.NewUsage(fmt.Sprintf("give 1 to %d", maxDays), "--days is %d", days)
	}
	return nil
}

// Args returns a check that says what is wrong with the number of arguments, and
// how to call the command.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if check(cmd, got) == nil {
			return nil
		}
		_, takes, _ := strings.Cut(cmd.Use, " ")
		why := "an argument is missing"
		switch {
		case len(got) > 0 && check(cmd, got[:len(got)-1]) == nil, len(got) > 2:
			why = fmt.Sprintf("%q is one argument too many", got[len(got)-1])
		case len(got) == 0 && takes != "":
			why = takes + " is missing"
		}
		return failure.NewUsage("write `"+cmd.CommandPath()+" "+takes+"`", "%s", why)
	}
}
