// Command generate prints protocols/name/confusables.txt: the characters that a label can
// have and that look like others, each with the text that stands for it in a skeleton
// (UTS #39, section 4). The data is that of ICU, which has the table of its Unicode version:
//
//	apt-get install libicu-dev
//	cc -o /tmp/generate tools/confusables/generate.c -licui18n -licuuc
//	/tmp/generate > protocols/name/confusables.txt
//
// The Unicode version must be the one of Go's tables (ICU 72 has 15.0); a test of
// protocols/name compares them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uspoof.h>
#include <unicode/ustring.h>

static void check(UErrorCode status, const char *what) {
	if (U_FAILURE(status)) {
		fprintf(stderr, "%s: %s\n", what, u_errorName(status));
		exit(1);
	}
}

// inLabel reports whether c can occur in the canonical decomposition of a label. UTS #46
// maps the other letters away, as NFKC_Casefold does.
static int inLabel(const UNormalizer2 *folded, UChar32 c) {
	if (U_GET_GC_MASK(c) & (U_GC_LL_MASK | U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK | U_GC_ND_MASK) || c == 0x3007) {
		UErrorCode status = U_ZERO_ERROR;
		UChar s[2];
		int32_t n = 0;
		U16_APPEND_UNSAFE(s, n, c);
		UBool same = unorm2_isNormalized(folded, s, n, &status);
		check(status, "unorm2_isNormalized");
		return same;
	}
	return c == '-';
}

int main(void) {
	UErrorCode status = U_ZERO_ERROR;
	USpoofChecker *spoof = uspoof_open(&status);
	const UNormalizer2 *folded = unorm2_getNFKCCasefoldInstance(&status);
	const UNormalizer2 *nfd = unorm2_getNFDInstance(&status);
	check(status, "open");
	printf("# Confusable characters of labels (UTS #39), made by tools/confusables from the data of ICU %s.\n", U_ICU_VERSION);
	printf("# Copyright Unicode, Inc., under the Unicode License (https://www.unicode.org/license.txt).\n");
	printf("# unicode %s.0\n", U_UNICODE_VERSION);
	for (UChar32 c = 0; c <= 0x10ffff; c++) {
		UChar source[2], target[64], decomposed[8];
		int32_t n = 0, length, parts;
		if (!inLabel(folded, c)) continue;
		if (unorm2_getDecomposition(nfd, c, decomposed, 8, &status) >= 0) continue; // its parts are looked up
		check(status, "unorm2_getDecomposition");
		U16_APPEND_UNSAFE(source, n, c);
		length = uspoof_getSkeleton(spoof, 0, source, n, target, 64, &status);
		check(status, "uspoof_getSkeleton");
		if (length == n && memcmp(source, target, n * sizeof(UChar)) == 0) continue;
		printf("%04X", c);
		for (parts = 0; parts < length;) {
			UChar32 t;
			U16_NEXT(target, parts, length, t);
			printf(" %04X", t);
		}
		printf("\n");
	}
	uspoof_close(spoof);
	return 0;
}
