/*
 * Lookups: CALLERS callers ask for one key, each once. Processes and their Go code:
 *
 *   Caller   Pool.Resolve and Names.Resolve: the cache, lookups.enter (Names.enter), the wait,
 *            and lookups.leave
 *   Runner   lookups.run and lookups.finish (Names.run, Names.finish)
 *   Finder   lookups.search: the gate, the finder, and lookup.add
 *   Janitor  what is remembered expires at any time, and then cache.sweep
 *   Shutdown the resolver's Run: it admits no more tasks, ends their context and waits
 *
 * Without SWEEPS nothing is remembered, with STAYS there is no end of Run, and with BARE no finder: a
 * search ends at any time. With NAMES a lookup goes on without callers, as that of a name does. Lookup i is the one that
 * caller i has begun. One atomic block is one hold of a mutex. A deadline is a context that ends at
 * any time, as is a caller that gives up.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away: each time the property
 * beside it has to fail.
 */
#ifndef CALLERS
#define CALLERS 3
#endif
#ifndef CAP
#define CAP 1
#endif
#ifndef SWEEPS
#define SWEEPS 1
#endif
#define NONE 255

byte current = NONE;     /* lookups.active of the key */
byte users[CALLERS];    /* lookup.users */
bool canceled[CALLERS]; /* lookup.cancel was called */
bool late[CALLERS];     /* the deadline has passed */
bool live[3];           /* the lookup has begun, and was neither canceled nor ended */
bool found[CALLERS];    /* lookup.result.found is not empty */
bool ended[CALLERS];    /* lookup.ended */
bool back[CALLERS];     /* the finder has returned */
bool cached, expired;   /* what is remembered of the key */
byte inside;            /* callers of the finder: places of lookups.gate that are taken */
byte tasks;             /* goroutines that Run waits for */
bool draining, stopped; /* Run has begun to end, and has returned */
byte through;           /* callers that are through */

bool cut, twice, unanswered, old, dropped; /* what must never be */

#define over(s) (canceled[s] || late[s] || draining)

/* finish ends a lookup for those who wait. A channel that is closed again is a panic. */
inline finish(s) {
#if SWEEPS
	atomic {
		if
		:: (found[s]) -> cached = true; expired = false
		:: else -> skip
		fi
	}
#endif
	atomic {
		if
		:: /* guard: same_ended, single */ (current == s) -> current = NONE
		:: else -> skip
		fi;
		live[s] = false
	}
	atomic { twice = twice || ended[s]; ended[s] = true }
}

proctype Caller(byte i) {
	byte s = NONE;
	bool refused, hit;

	atomic {
		if
		:: /* guard: fresh_hit, fresh */ (cached && !expired) -> hit = true; old = old || !cached || expired
		:: else -> skip
		fi
	}
	if
	:: hit -> skip
	:: !hit ->
		atomic {
			if
			:: /* guard: none_runs, single */ (current == NONE) -> s = i; current = i; users[i] = 1; live[i] = true
			:: else -> s = current; users[s]++
			fi
		}
		if
		:: (s == i) ->
			atomic {
				if
				:: /* guard: admitted, quiet */ (!draining) -> tasks++; run Runner(i)
				:: else -> refused = true
				fi
			}
			if
			:: /* guard: only_refused, once */ (refused) -> finish(i)
			:: else -> skip
			fi
		:: (s != i) -> skip
		fi;
		atomic { /* the wait, then leave */
			if
			:: /* guard: told, answered */ (ended[s]) -> unanswered = unanswered || !ended[s]
			:: (i > 0) -> skip /* it gives up, which the first caller never does */
			fi;
#ifndef NAMES
			users[s]--;
			if
			:: /* guard: last_user, not_cut */ (users[s] == 0) ->
				if
				:: /* guard: same_left, single */ (current == s) -> current = NONE
				:: else -> skip
				fi;
				cut = cut || users[s] > 0;
				canceled[s] = true;
				live[s] = false
			:: else -> skip
			fi;
#endif
			s = NONE
		}
	fi;
	atomic { hit = false; refused = false; through++ }
}

proctype Runner(byte s) {
#ifndef BARE
	atomic {
		if
		:: (!draining) -> tasks++; run Finder(s)
		:: else -> back[s] = true /* not needed for quiet: Run waits for this task anyway */
		fi
	}
	if
	:: (back[s] || over(s)) -> skip
	:: !back[s] -> late[s] = true /* the deadline */
	fi;
#endif
	finish(s);
	tasks--
}

/* add yields a provider, unless the lookup has ended without waiting for the finder. */
inline add(s) {
	atomic {
		if
		:: /* guard: not_ended, once */ (!ended[s]) -> twice = twice || ended[s]; found[s] = true
		:: else -> skip
		fi
	}
}

proctype Finder(byte s) {
	bool in;
	atomic {
		if
		:: /* guard: place, bounded */ (inside < CAP) -> inside++; in = true
		:: over(s) -> skip
		fi
	}
	if
	:: in ->
		/* it finds something or not, soon or when its context has long ended */
		if :: add(s) :: skip fi
	:: else -> skip
	fi;
	atomic {
		if
		:: in -> inside--; in = false
		:: else -> skip
		fi;
		back[s] = true;
		tasks--
	}
}

proctype Janitor() {
	atomic { expired = cached } /* the clock, at any time */
	atomic {
		if
		:: /* guard: only_expired, kept */ (cached && expired) -> dropped = dropped || cached && !expired; cached = false
		:: else -> skip
		fi
	}
}

proctype Shutdown() {
	draining = true;
	/* guard: waits, quiet */ (tasks == 0);
	stopped = true
}

init {
	byte i;
	atomic {
		do
		:: (i < CALLERS) -> run Caller(i); i++
		:: else -> break
		od;
#if SWEEPS
		run Janitor();
#endif
#ifndef STAYS
		run Shutdown()
#endif
	}
}

#define running (live[0] + live[1] + live[2])

/* one lookup of the key at a time, but for those that nobody wants any more */
ltl single { [] (running <= 1) }
/* nobody's lookup is canceled by another one who leaves */
ltl not_cut { [] !cut }
/* a lookup ends once, and nothing is added to it after that */
ltl once { [] !twice }
/* who stops waiting was answered, or has given up */
ltl answered { [] !unanswered }
/* nothing that has expired is an answer */
ltl fresh { [] !old }
/* the janitor drops nothing else */
ltl kept { [] !dropped }
/* never more calls of the finder than there are places */
ltl bounded { [] (inside <= CAP) }
/* when Run has returned, nothing runs, and nothing begins */
ltl quiet { [] (stopped -> tasks == 0) }
#ifdef STAYS
#define idle (through == CALLERS && tasks == 0)
#else
#define idle (through == CALLERS && stopped)
#endif

/* every caller gets its answer, and Run returns */
ltl drains { <> idle }
/* and nothing is left */
ltl nothing_left { [] (idle -> (inside == 0 && current == NONE && running == 0)) }
