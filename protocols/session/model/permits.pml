/*
 * Permits: TAKERS callers of one admission.Budget (and its Gate) of CAP places,
 * each ROUNDS times. Processes and their Go code:
 *
 *   Taker    permits.acquire, permits.acquireForReader and permits.release around
 *            admission Budget.Acquire, TryAcquire and Release, and the place
 *            of a Gate, which is given back through a sync.OnceFunc
 *
 * One atomic block is one hold of the mutex of golang.org/x/sync/semaphore,
 * whose Acquire, Release and notifyWaiters are written out here. All weights
 * are 1: with those, whoever waits waits because every place is taken, so that
 * Acquire's look at the line of waiters and the wake-up after a waiter in front
 * left it (both there for larger weights) change nothing.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away
 * and turns round: each time a property below has to fail.
 */
#ifndef TAKERS
#define TAKERS 3
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

chan waiters = [TAKERS] of { byte }; /* Weighted.waiters */
bool ready[TAKERS];                  /* waiter.ready is closed */
short cur;                           /* Weighted.cur */
short meter;                         /* meter.current, which /limits shows */
short holding;                       /* takers between taking and giving back */
byte ended;                          /* takers that are through */

/* notify is notifyWaiters: hands free places to those in front. */
inline notify() {
	do
	:: empty(waiters) -> break
	:: nempty(waiters) ->
		if
		:: /* guard: wake_room, never_over */ (cur < CAP) ->
			cur++;
			waiters?w;
			ready[w] = true
		:: else -> break
		fi
	od;
	w = 0
}

/* giveBack is Budget.Release: the meter first, so that it never shows more
 * than there is. */
inline giveBack() {
	meter--;
	atomic { cur--; notify() }
}

proctype Taker(byte i) {
	byte round, w, tries;
	bool patient, got;

	do
	:: (round == ROUNDS) -> break
	:: (round < ROUNDS) ->
		round++;
		/* hold waits as long as it takes, frame and charge up to permit_wait;
		 * any other context may end at any time. */
		if :: patient = true :: patient = false fi;
		/* Budget.Acquire */
		atomic {
			if
			:: /* guard: room, never_over */ (cur < CAP) -> cur++; got = true
			:: else -> waiters!i
			fi
		}
		if
		:: got -> skip
		:: !got ->
			if
			:: ready[i] ->
				if
				:: got = true
				:: !patient -> atomic { cur--; notify() } /* it ended at the same time */
				fi
			:: !patient -> /* ctx ended */
				atomic {
					if
					:: /* guard: given_meanwhile, never_over */ (ready[i]) -> cur--; notify()
					:: else -> waiters??eval(i)
					fi
				}
			fi;
			ready[i] = false;
			/* permits.acquire looks once more, to type the refusal */
			if
			:: !got && !patient ->
				atomic {
					if
					:: /* guard: try_room, never_over */ (cur < CAP) -> cur++; got = true
					:: else -> skip /* busy */
					fi
				}
			:: else -> skip
			fi
		fi;
		if
		:: got ->
			meter++;
			holding++;
			holding--;
			/* whoever gives back may do so twice: Gate.enter's OnceFunc */
			tries = 0;
			do
			:: (tries < 2) ->
				if
				:: /* guard: once, given_once */ (got) -> got = false; giveBack()
				:: else -> skip
				fi;
				tries++
			:: (tries == 2) -> break
			od;
			tries = 0
		:: else -> skip
		fi
	od;
	ended++
}

init {
	byte i;
	atomic {
		do
		:: (i < TAKERS) -> run Taker(i); i++
		:: else -> break
		od
	}
}

#define idle (ended == TAKERS)

/* never more held than there are places, nor shown */
ltl never_over { [] (cur <= CAP && holding <= CAP && meter <= CAP) }
/* what is given back was taken, once */
ltl given_once { [] (cur >= 0 && meter >= 0 && meter <= cur) }
/* every caller gets a place or its answer */
ltl drains { <> idle }
/* and nothing stays taken */
ltl nothing_kept { [] (idle -> (cur == 0 && meter == 0 && len(waiters) == 0)) }
