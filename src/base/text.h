/* text.h - what libc's string functions leave out. */
#ifndef PRIM_BASE_TEXT_H
#define PRIM_BASE_TEXT_H

#include "base/compiler.h"

/* What is behind the start of a text; NULL if it starts otherwise. */
const char *text_behind(const char *text, const char *start);

bool text_ends_with(const char *text, const char *end);

/* Of texts that lie one behind the other, each terminated: that with this index, from 0 on. */
const char *text_at(const char *texts, unsigned index);

/* Bytes of the UTF-8 character that a text of this length begins with; 0 if it begins with none. */
size_t text_character(const char *text, size_t length);

#endif
