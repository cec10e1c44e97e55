from tamis._core import dense as dense
from tamis._core import factors as factors
from tamis._core import mail as mail
from tamis._core import sums as sums
from tamis._core import text as text

processor: str
