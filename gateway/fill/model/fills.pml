/*
 * Fills: CALLERS requests ask for one path, each once. Processes and their Go code:
 *
 *   Caller   Service.join: Service.enter and the queue; then flight.wait and flight.leave
 *   Worker   Service.work, with Service.end
 *   Run      Service.Run, RUNS times: its workers, Service.setOpen, and the end of what is left
 *
 * Flight i is the one that caller i has made. One atomic block is one hold of a mutex. A fill ends at any
 * time, with an object or without. A caller but the first gives up at any time, without PATIENT. The queue is
 * first in, first out: with one path, nothing is shed.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away: each time the property
 * beside it has to fail.
 */
#ifndef CALLERS
#define CALLERS 3
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef CAP
#define CAP 1
#endif
#ifndef RUNS
#define RUNS 1
#endif
#define NONE 255

chan queue = [CAP] of { byte };
byte current = NONE;      /* Service.flights of the path */
bool open, stopping;      /* Service.open, and the end of the context of Run */
bool ended[CALLERS];      /* state.ended */
byte waiters[CALLERS];    /* flight.waiters */
bool held[CALLERS];       /* state.release is set */
byte objects;             /* objects that a fill holds in the store */
byte running;             /* fills that run */
byte working;             /* workers that have not returned */
byte runs;                /* Runs that have returned */
bool returned;            /* no Run runs */
byte through;             /* callers that are through */

bool twice, again, early, unanswered, lost; /* what must never be */

/* finish is flight.end: it ends a flight for those who wait. object says that it brings one. */
inline finish(s, object) {
	atomic {
		if
		:: !object -> skip
		:: object ->
			if
			:: /* guard: nobody_waits, kept */ (ended[s] || waiters[s] == 0) ->
				early = early || (waiters[s] > 0 && !ended[s]);
				objects--
			:: else -> held[s] = true
			fi
		fi;
		if
		:: /* guard: first_end, once */ (!ended[s]) -> twice = twice || ended[s]; ended[s] = true
		:: else -> skip
		fi
	}
}

/* end is Service.end: it makes place for another flight of the path, and ends this one. */
inline end(s, object) {
	atomic {
		if
		:: /* guard: same, single */ (current == s) -> current = NONE
		:: else -> skip
		fi
	}
	finish(s, object)
}

proctype Caller(byte i) {
	byte s = NONE;
	bool refused;

	atomic {
		if
		:: /* guard: open, answered */ (open) ->
			if
			:: /* guard: none_runs, single */ (current == NONE) -> s = i; current = i
			:: else -> s = current
			fi;
			waiters[s]++
		:: !open -> skip /* draining */
		fi
	}
	if
	:: (s == i) ->
		atomic {
			if
			:: nfull(queue) -> queue ! i
			:: full(queue) -> refused = true
			fi
		}
		if
		:: /* guard: told_busy, accepted */ (refused) -> lost = lost || !refused; end(i, false)
		:: else -> skip
		fi
	:: else -> skip
	fi;
	if
	:: (s == NONE) -> skip
	:: (s != NONE) ->
		atomic { /* the wait, then leave */
			if
			:: /* guard: told, true_answer */ (ended[s]) -> unanswered = unanswered || !ended[s]
#ifndef PATIENT
			:: (i > 0) -> skip /* it gives up, which the first caller never does */
#endif
			fi;
			waiters[s]--;
			if
			:: /* guard: last, kept */ (waiters[s] == 0) ->
				early = early || (waiters[s] > 0 && held[s]);
				objects = objects - (held[s] -> 1 : 0);
				held[s] = false
			:: else -> skip
			fi
		}
	fi;
	atomic { s = NONE; refused = false; through++ }
}

proctype Worker() {
	byte s = NONE;
	bool object;
	do
	:: atomic { queue ? s ->
			if
			:: /* guard: not_ended, useful */ (!ended[s]) -> again = again || ended[s]; running++
			:: else -> s = NONE
			fi
		}
		if
		:: (s == NONE) -> skip
		:: (s != NONE) ->
			if
			:: atomic { object = true; objects++; running-- }
			:: atomic { object = false; running-- }
			fi;
			end(s, object)
		fi;
		atomic { s = NONE; object = false }
	:: atomic { stopping && empty(queue) -> working--; break }
	od
}

proctype Run() {
	byte left, i;
	do
	:: (runs < RUNS) ->
		atomic {
			returned = false; stopping = false; open = true; working = WORKERS;
			for (i : 1 .. WORKERS) { run Worker() }
			i = 0
		}
		stopping = true;
		atomic { open = false; left = current; current = NONE }
		/* guard: joined, quiet */ (working == 0);
		if
		:: /* guard: leftover, answered */ (left != NONE) -> finish(left, false)
		:: else -> skip
		fi;
		atomic { left = NONE; returned = true; runs++ }
	:: (runs == RUNS) -> break
	od
}

init {
	byte i;
	atomic {
		returned = true;
		do
		:: (i < CALLERS) -> run Caller(i); i++
		:: else -> break
		od;
		run Run()
	}
}

/* one fill of the path runs at a time */
ltl single { [] (running <= 1) }
/* a fill that the queue took is not given up by the caller that made it */
ltl accepted { [] !lost }
/* a flight ends once */
ltl once { [] !twice }
/* no fill runs for a flight that has ended */
ltl useful { [] !again }
/* who stops waiting was answered, or has given up */
ltl true_answer { [] !unanswered }
/* an object is not given up while somebody waits for it */
ltl kept { [] !early }
/* when Run has returned, no fill runs */
ltl quiet { [] (returned -> running == 0) }

#define idle (through == CALLERS && runs == RUNS)

/* every caller gets its answer, and Run returns */
ltl answered { <> idle }
/* and no object stays held */
ltl nothing_left { [] (idle -> (objects == 0 && running == 0)) }
