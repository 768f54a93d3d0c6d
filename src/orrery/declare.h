#ifndef ORR_DECLARE_H
#define ORR_DECLARE_H
/* What a public header declares between ORR_BEGIN and ORR_END is exported by the shared library,
 * which is compiled with hidden visibility, and has C linkage in C++. */
#ifdef __cplusplus
#define ORR_BEGIN \
	_Pragma("GCC visibility push(default)") extern "C" \
	{
#define ORR_END \
	} \
	_Pragma("GCC visibility pop")
#else
#define ORR_BEGIN _Pragma("GCC visibility push(default)")
#define ORR_END _Pragma("GCC visibility pop")
#endif
#endif
