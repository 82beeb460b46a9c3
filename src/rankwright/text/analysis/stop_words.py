"""English words that say how a sentence is built and not what it is about.

Gathered by kind of word. As texts are cut at apostrophes, the pieces that contractions leave behind are here too
(``don't`` becomes ``don`` and ``t``).
"""

from __future__ import annotations

__all__ = ["STOP_WORDS"]

_ARTICLES_AND_POINTERS = "a an the this that these those such same other others another each every either neither both"
_QUANTITIES = """
    all any some no none few fewer less least more most many much several enough own only just very too quite
    rather almost
"""
_PERSONS = """
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves one ones oneself
    anybody anyone anything everybody everyone everything nobody nothing somebody someone something
"""
_QUESTIONS = "who whom whose which what when where why how whoever whatever whichever whenever wherever however"
_HELPING_VERBS = """
    am is are was were be been being have has had having do does did done doing will would shall should can could may
    might must ought cannot get gets got let
"""
_PLACES_AND_TIMES = """
    about above across after against along amid among amongst around as at before behind below beneath beside besides
    between beyond by concerning despite down during except for from in inside into near of off on onto out outside
    over past per since through throughout till to toward towards under underneath until up upon via with within
    without
"""
_JOINTS = """
    and or but nor so yet if then else than because although though while whereas whether unless once therefore thus
    hence moreover furthermore otherwise
"""
_ADVERBS = """
    again ago already also always away back else even ever far here hereby herein indeed instead later likewise maybe
    meanwhile mostly namely never nevertheless next nonetheless not now often perhaps seldom sometimes somehow
    somewhat somewhere soon still there thereby therein thereof together twice usually well elsewhere everywhere
    anywhere nowhere anyway anyhow afterwards beforehand formerly
"""
_PIECES = """
    d ll m o re s t ve y don doesn didn isn aren wasn weren hasn haven hadn wouldn shan shouldn couldn mightn mustn
    needn ain
"""

STOP_WORDS = frozenset(
    " ".join(
        (
            _ARTICLES_AND_POINTERS,
            _QUANTITIES,
            _PERSONS,
            _QUESTIONS,
            _HELPING_VERBS,
            _PLACES_AND_TIMES,
            _JOINTS,
            _ADVERBS,
            _PIECES,
        )
    ).split()
)
"""The stop words of the analyser ``porter+stop``."""
