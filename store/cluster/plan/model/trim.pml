/*
 * Trimming: HOLDERS members hold an object of which WANT copies are wanted. TRIES of them try once to drop
 * their own. Processes and their Go code:
 *
 *   Holder  planning.trim, Object.Leased and planning.leaveOn, up to Drop. It asks any other holder for the lease:
 *           members may see the cluster differently, and a planner that restarts has forgotten its leases.
 *           With AGAIN holder 0 may restart, and asks once more.
 *   Owner   with OWNER, holder 0 gets a target of its own, at any time: Object.Ask
 *   Loss    a copy is lost, at any time, LOSSES times
 *
 * One atomic block is one call of a method. A call of another holder's is a request and its answer:
 * Moment.GrantLease, or Object.Answer and Object.Answered. All holders are known to all by proofs that are older
 * than everything here. Time is not in the model, but that TrimWait lies between the two rounds of challenges,
 * and anything may happen in it. A lease ends at its planner when its holder is through, or at any time.
 *
 * A condition after a guard mark, in parentheses, is what the test takes away: each time the property
 * beside it has to fail.
 */
#ifndef HOLDERS
#define HOLDERS 3
#endif
#ifndef TRIES
#define TRIES HOLDERS
#endif
#ifndef WANT
#define WANT 1
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifdef OWNER
#define owners 1
#else
#define owners 0
#endif
#define NONE 255

bool here[HOLDERS];    /* the copy exists */
bool leaving[HOLDERS]; /* Object.leave.began is set */
bool asks[HOLDERS];    /* targets.asks of the holder itself */
byte lease[HOLDERS];   /* Object.lease of each as a planner: whose it is */
byte had[HOLDERS];     /* whose it is, or was last */
bool refused[HOLDERS]; /* another holder was refused since then */
bool second[HOLDERS];  /* Object.leave.again: the second round has begun */
bool late[HOLDERS];    /* a copy was lost since then */
byte copies = HOLDERS; /* how many there are */
byte lost;             /* how many were lost */
byte through;          /* processes that are through */

bool alone, unnoticed, taken, unfit, unfair, denied; /* what must never be */

/* Object.Answer of j to a challenge of i, and Object.Answered: n counts the proofs of this round. */
inline challenge(i, j) {
	atomic {
		if
		:: (i == j) -> skip
		:: (i != j && here[j]) ->
			if
			:: /* guard: says_leaving, enough_left */ (!leaving[j]) -> n++
			:: else -> skip
			fi
		:: (i != j && !here[j]) ->
			if
			:: /* guard: proved_since, noticed */ (false) -> n++ /* by a proof from before the round */
			:: else -> skip
			fi
		fi;
		j++
	}
}

inline round(i) {
	do
	:: (j < HOLDERS) -> challenge(i, j)
	:: (j == HOLDERS) -> break
	od
}

proctype Holder(byte i) {
	byte p = NONE; /* the planner that granted the lease */
	byte n, j, asked;

ask:
	atomic {
		asked++;
		if
		:: (i != 0) -> p = 0
		:: (i != 1) -> p = 1
		:: (i != 2) -> p = 2
		fi;
		/* Moment.GrantLease of p */
		if
		:: /* guard: no_other, one_lease */ (lease[p] == NONE) ->
			if
			:: /* guard: holds, grants_as_holder */ (here[p] && !leaving[p]) ->
				if
				:: /* guard: turn, in_turn */ (had[p] != i || !refused[p]) ->
					taken = taken || lease[p] != NONE;
					unfit = unfit || !here[p] || leaving[p];
					unfair = unfair || (had[p] == i && refused[p]);
					lease[p] = i; had[p] = i; refused[p] = false
				:: else -> p = NONE
				fi
			:: else -> p = NONE
			fi
		:: else -> refused[p] = true; p = NONE
		fi
	}
	if
	:: (p == NONE) -> skip
	:: (p != NONE) ->
		leaving[i] = true; /* Object.Leased */
		round(i);
		if
#ifdef AGAIN
		:: (i == 0 && asked == 1) -> skip /* it restarts */
#endif
		:: (n >= WANT) -> /* TrimWait passes */
			atomic { n = 0; j = 0; second[i] = true; late[i] = false }
			round(i);
			atomic { /* Plan of the tick at which Drop is returned */
				if
				:: /* guard: second_round, noticed */ (n >= WANT) ->
					if
					:: /* guard: own_target, keeps_own */ (!asks[i]) ->
						copies = copies - here[i];
						alone = alone || (copies + lost < WANT);
						unnoticed = unnoticed || (copies < WANT && !late[i]);
						denied = denied || asks[i];
						here[i] = false
					:: else -> skip
					fi
				:: else -> skip
				fi
			}
		:: else -> skip
		fi;
		atomic {
			leaving[i] = false;
			if
			:: (lease[p] == i) -> lease[p] = NONE
			:: else -> skip
			fi
		}
	fi;
	atomic { n = 0; j = 0; p = NONE; second[i] = false; late[i] = false }
#ifdef AGAIN
	if
	:: (i == 0 && asked == 1 && here[i]) -> goto ask
	:: else -> skip
	fi;
#endif
	atomic { asked = 0; through++ }
}

proctype Owner() {
	atomic { asks[0] = true; through++ }
}

proctype Loss() {
	byte k, j;
	atomic {
		if
		:: k = 0
		:: k = 1
		:: k = 2
		fi;
		if
		:: (here[k]) ->
			here[k] = false; copies--; lost++;
			do
			:: (j < HOLDERS) -> late[j] = second[j]; j++
			:: (j == HOLDERS) -> break
			od
		:: else -> skip
		fi;
		k = 0; j = 0; through++
	}
}

init {
	byte i;
	atomic {
		do
		:: (i < HOLDERS) -> here[i] = true; lease[i] = NONE; had[i] = NONE; i++
		:: (i == HOLDERS) -> break
		od;
		i = 0;
		do
		:: (i < TRIES) -> run Holder(i); i++
		:: (i == TRIES) -> break
		od;
		i = 0;
		do
		:: (i < LOSSES) -> run Loss(); i++
		:: (i == LOSSES) -> break
		od;
		i = 0;
#ifdef OWNER
		run Owner()
#endif
	}
}

/* holders never leave fewer copies than are wanted, by what they do themselves */
ltl enough_left { [] !alone }
/* a copy that was lost before the second round is not counted on */
ltl noticed { [] !unnoticed }
/* a planner gives one lease at a time */
ltl one_lease { [] !taken }
/* and not again to the same holder while another one asks */
ltl in_turn { [] !unfair }
/* only who counts as a holder grants one */
ltl grants_as_holder { [] !unfit }
/* a node with a target of its own drops nothing */
ltl keeps_own { [] !denied }
/* all of them come to an end */
ltl ends { <> (through == TRIES + LOSSES + owners) }
