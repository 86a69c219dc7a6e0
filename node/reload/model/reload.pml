/*
 * The swap of the configuration: RELOADS reloads, a reader, the guard, and the shutdown. Processes and their Go code:
 *
 *   Reload   Service.Reload: lifetime.enter, then Service.configuration and Service.swap
 *   Guard    Service.guard, with Service.look and Service.revert
 *   Reader   who takes Service.Current once for an operation
 *   Stop     Service.Drain, then the gates that shut, then the end of Service.Run with lifetime.end
 *
 * A configuration is a number; 0 is the first. Its two keys are swapped at once, with one pointer: old and new are the
 * keys as a reader finds them. A reload fails at any time before the swap. The time of a guard ends at any time.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away: each time the property beside it has to
 * fail.
 */
#ifndef RELOADS
#define RELOADS 2
#endif
#define NONE 255

byte current;             /* Service.current */
byte told;                /* what Deps.Apply got last */
bool telling;             /* between the swap and Deps.Apply */
byte watched = NONE;      /* the configuration that Service.watch guards */
byte before[RELOADS + 1]; /* the configuration that each one replaced */
bool taken;               /* Service.gate: a reload or the way back is under way */
bool draining, ended;     /* lifetime.draining and lifetime.ended */
byte working;             /* lifetime.work */
bool returned;            /* Run has returned */
byte through;             /* reloads that are through */
bool shut;                /* a gate that was open is shut */
bool stopping;            /* the gate is shut as the node drains */
bool guarded;             /* Service.guard has returned */
byte bad[RELOADS + 1];    /* configurations that failed */

bool astray, late, broken, twice; /* what must never be */
bool back[RELOADS + 1];           /* that were taken back */

proctype Reload(byte i) {
	byte old;
	bool entered;
	atomic { /* guard: alone, single */ (!taken) -> twice = twice || taken; taken = true }
	atomic {
		if
		:: /* guard: not_ended, quiet */ (!ended && !draining) -> entered = true; working++
		:: else -> skip
		fi
	}
	if
	:: entered ->
		old = current;
		if
		:: bad[i] = 1 /* it is not read, or not valid */
		:: skip; /* it is good */
			if
			:: (draining) -> bad[i] = 1
			:: else -> skip
			fi;
			if
			:: /* guard: good, unchanged */ (bad[i] == 0) ->
				watched = NONE;
				atomic { before[i] = old; current = i; telling = true };
				atomic { told = i; telling = false };
				watched = i
			:: else -> skip
			fi
		fi;
		working--
	:: else -> skip
	fi;
	taken = false;
	atomic { old = 0; entered = false; through++ }
}

proctype Guard() {
	byte w;
	bool saw;
	do
	:: (draining) -> break
	:: atomic { watched != NONE -> watched = NONE } /* its time is over */
	:: atomic { (watched != NONE && shut) -> w = watched; saw = stopping };
		if
		:: atomic { /* guard: waits, single */ (!taken) -> twice = twice || taken; taken = true }
		:: (draining) -> break
		fi;
		if
		:: /* guard: same, way_back */ (watched == w && current == w) ->
			if
			:: /* guard: not_draining, alone_shut */ (!draining) ->
				late = late || saw;
				astray = astray || current != w || back[w];
				watched = NONE;
				atomic { current = before[w]; back[w] = true; telling = true };
				atomic { told = current; telling = false }
			:: else -> taken = false; break
			fi
		:: else -> skip
		fi;
		taken = false;
		atomic { w = 0; saw = false }
	od;
	guarded = true
}

proctype Reader() {
	byte seen, reads;
	do
	:: (reads < 1) ->
		atomic { reads++; seen = current; broken = broken || (seen > 0 && bad[seen] == 1); seen = 0 }
	:: (reads == 1) -> break
	od
}

proctype Stop() {
	draining = true;
	atomic { stopping = true; shut = true }
	(guarded);
	ended = true;
	/* guard: joined, quiet */ (working == 0);
	returned = true
}

proctype Gates() {
	byte turns;
	do
	:: (stopping || turns == 2) -> break
	:: atomic { (!stopping && turns < 2) -> shut = !shut; turns++ }
	od
}

init {
	byte i;
	atomic {
		i = 1;
		do
		:: (i <= RELOADS) -> run Reload(i); i++
		:: else -> break
		od;
		run Guard();
		run Reader();
		run Gates();
		run Stop()
	}
}

/* one reload or way back is under way */
ltl single { [] !twice }
/* what the services were told last is in force */
ltl said { [] (telling || told == current) }
/* a configuration that failed is never in force */
ltl unchanged { [] !broken }
/* the way back leads from the configuration that is in force, once */
ltl way_back { [] !astray }
/* gates that shut as the node drains take nothing back */
ltl alone_shut { [] !late }
/* when Run has returned, no reload is under way */
ltl quiet { [] (returned -> working == 0) }
/* every reload ends, and Run returns */
ltl ends { <> (through == RELOADS && returned) }
