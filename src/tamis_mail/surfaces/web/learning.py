"""The page Learning: what the filter has learned, how well it judges, and how the mail changes.

The page comes at once, with an empty element for each figure. Its script requests the figures, shows the
progress of those that are still computed, and draws them (`static/learning.js`).
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tamis_mail.labels import count_messages
from tamis_mail.surfaces.web.analysis import Analysis
from tamis_mail.surfaces.web.context import Context
from tamis_mail.surfaces.web.figures import FIGURES
from tamis_mail.surfaces.web.jobs import Job
from tamis_mail.surfaces.web.threads import Connections


def routes(context: Context) -> list[BaseRoute]:
    analysis = Analysis(context.threads, context.jobs)

    async def show(request: Request) -> Response:
        def count(connections: Connections) -> tuple[int, int]:
            return count_messages(connections.sieve.store.labels())

        spam, ham = await context.threads.read(count)
        return context.pages.render(request, "learning.html", {"spam": spam, "ham": ham})

    async def find_figure(request: Request) -> Response:
        name = request.path_params["name"]
        figure = FIGURES.get(name)
        if figure is None:
            raise HTTPException(404, f"there is no figure of this name, expected one of {', '.join(FIGURES)}")
        return answer_with_figure(
            await analysis.find(
                name, figure.title, figure.compute, depends_on_verdicts=figure.depends_on_verdicts
            )
        )

    return [Route("/learning", show), Route("/learning/figures/{name}", find_figure)]


def answer_with_figure(result: dict[str, object] | Job) -> Response:
    """Answer with the values of a figure, or with the job that computes it (202 Accepted)."""
    if isinstance(result, Job):
        return JSONResponse({"job": result.describe()}, 202)
    return JSONResponse(result)
