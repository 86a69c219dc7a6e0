/*
 * Discovery: CALLERS requests, their lookups, the probes of these, the queue to the one writer of a bucket, and the
 * end of the service. Processes and their Go code:
 *
 *   Caller   admission.begin: admission.running, then a place of admission.gate; driver.loop; the end that begin gave
 *   Probe    the goroutine of driver.send: a call, rpcClient.report, then driver.replies
 *   Stray    with STRAY, a call that is reported at any time, also when Run has returned
 *   Writer   Table.write, which Table.open starts, for one bucket
 *   Run      Service.Run from the end of its context: admission.setRunning, the wait for running.lookups, Table.close,
 *            the wait for Table.writers
 *
 * One atomic block is one hold of a mutex, or one operation of a channel or an atomic. Deadlines, peers that answer or
 * do not, hedges and callers that give up end a wait, a probe or a lookup at any time. The wait of 100 ms for a place
 * in the route queue ends at any time too.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away: each time the property beside it has to
 * fail.
 */
#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef PROBES
#define PROBES 1
#endif
#define ALPHA 1   /* probes of a lookup in flight: α + β */
#define PLACES 1  /* of admission.gate */
#define WAITING 1 /* requests that may wait for them */
#define CAP 1     /* of bucket.queue */

bool up = true;       /* admission.running */
byte working;         /* running.lookups: lookups and probes */
byte inside, waiting; /* admission.gate */
bool table = true;    /* Table.running */
bool ended;           /* the context of the table */
bool open;            /* bucket.queue: a writer drains it */
byte queued;          /* updates in bucket.queue */
bool writing;         /* a writer is between its load and its store of bucket.entries */
byte writers;         /* Table.writers */
bool over[CALLERS];   /* the lookup's probes are canceled */
byte flying[CALLERS]; /* driver.inFlight */
bool known[9];        /* probe 3 × caller + n is in driver.inFlight */
bool returned;        /* Run has returned */
byte through;         /* callers that are through */

chan replies[CALLERS] = [ALPHA] of { byte }; /* driver.replies */

bool torn, twice; /* what must never be */

/* report is Table.Seen or Table.Failed. */
inline report() {
	if
	:: (open) -> skip
	:: (!open) ->
		atomic {
			if
			:: /* guard: not_open, single */ (!open) ->
				if
				:: /* guard: table_runs, joined */ (table) -> open = true; writers++; run Writer()
				:: else -> lost = true /* counted as dropped */
				fi
			:: else -> skip
			fi
		}
	fi;
	if
	:: lost -> skip
	:: !lost ->
		if
		:: atomic { /* guard: space, bounded */ (queued < CAP) -> queued++ }
		:: skip /* it waited too long: counted as dropped */
		fi
	fi;
	lost = false
}

proctype Writer() {
	do
	:: atomic { (queued > 0) -> queued--; torn = torn || writing; writing = true };
		writing = false
	:: (ended) -> break
	od;
	writers--
}

proctype Probe(byte i; byte p) {
	bool lost;
	if
	:: report()
	:: skip /* it was canceled: that says nothing of the peer */
	fi;
	if
	:: replies[i]!p
	:: (over[i]) -> skip
	fi;
	working--
}

proctype Stray() {
	bool lost;
	report()
}

proctype Caller(byte i) {
	byte begun, p;
	bool in, waits;
	atomic {
		if
		:: /* guard: runs, quiet */ (up) -> working++; in = true
		:: else -> skip /* not_ready */
		fi
	}
	if
	:: in ->
		atomic {
			if
			:: (inside < PLACES) -> inside++
			:: else ->
				if
				:: /* guard: line, bounded */ (waiting < WAITING) -> waiting++; waits = true
				:: else -> in = false /* busy */
				fi
			fi
		}
		if
		:: waits ->
			if
			:: atomic { /* guard: place, few */ (inside < PLACES) -> inside++; waiting--; waits = false }
			:: atomic { waiting--; in = false; waits = false }
			fi
		:: else -> skip
		fi;
		if
		:: in ->
			do
			:: atomic {
				(begun < PROBES) && /* guard: alpha, probes */ (flying[i] < ALPHA) ->
				known[3 * i + begun] = true; flying[i]++; working++; run Probe(i, begun); begun++
			}
			:: atomic {
				replies[i]?p ->
				if
				:: /* guard: in_flight, once */ (known[3 * i + p]) ->
					twice = twice || !known[3 * i + p];
					known[3 * i + p] = false;
					flying[i]--
				:: else -> skip /* canceled while the reply was on its way */
				fi;
				p = 0
			}
			:: atomic { (begun > 0 && known[3 * i + begun - 1]) -> known[3 * i + begun - 1] = false; flying[i]-- }
			:: break
			od;
			over[i] = true;
			inside--
		:: else -> skip
		fi;
		working--
	:: else -> skip
	fi;
	atomic { in = false; begun = 0; through++ }
}

proctype Run() {
	up = false;
	/* guard: lookups_end, users_first */ (working == 0);
	ended = true;
	atomic { table = false; open = false }
	/* guard: writers_end, joined */ (writers == 0);
	returned = true
}

init {
	byte i;
	atomic {
		do
		:: (i < CALLERS) -> run Caller(i); i++
		:: else -> break
		od;
#ifdef STRAY
		run Stray();
#endif
		run Run()
	}
}

/* a bucket has one writer at a time, so no change of it is lost */
ltl single { [] !torn }
/* that many lookups run at a time */
ltl few { [] (inside <= PLACES) }
/* that many requests wait, and that many updates */
ltl bounded { [] (waiting <= WAITING && queued <= CAP) }
/* a lookup has that many probes in flight, but for canceled ones */
ltl probes { [] (flying[0] <= ALPHA) }
/* a probe ends once for its lookup */
ltl once { [] !twice }
/* the table ends after the lookups that use it */
ltl users_first { [] (table || working == 0) }
/* when Run has returned, no lookup and no probe runs, and none begins */
ltl quiet { [] (returned -> working == 0) }
/* when Run has returned, no writer runs, and none begins */
ltl joined { [] (returned -> writers == 0) }
/* every request ends, and Run returns */
ltl ends { <> (through == CALLERS && returned) }
