"""A face as a stage of a `pyspark.ml` pipeline: `FaceEstimator(face).fit(frame)` is a `FaceModel`.

A face is an estimator of tamis with the methods of scikit-learn, such as `tamis.GaussianNB`. Fitting and
prediction run on Spark's executors (`tamis.engines.spark`); only the first few rows are sent to this process.
A saved model is a folder of JSON files, in which Spark writes the metadata of a stage: here its parameters,
and the face as bytes (`engines.messages`) in base64. It holds no code.
"""

import copy
from base64 import b64decode, b64encode
from inspect import signature
from typing import Any

import numpy as np

from tamis.engines import messages
from tamis.engines.spark import explain_failures
from tamis.engines.spark_columns import ReadRows, is_vector_type, quote, read_types
from tamis.extras import explain_missing

try:
    from pyspark.ml.base import Estimator, Model
    from pyspark.ml.functions import array_to_vector
    from pyspark.ml.param.shared import (
        HasFeaturesCol,
        HasInputCols,
        HasLabelCol,
        HasPredictionCol,
        HasProbabilityCol,
        HasWeightCol,
    )
    from pyspark.ml.util import (
        DefaultParamsReader,
        DefaultParamsWriter,
        MLReadable,
        MLReader,
        MLWritable,
        MLWriter,
    )
    from pyspark.sql import functions
except ModuleNotFoundError as error:
    raise explain_missing(error, "tamis.engines.spark_ml") from None

import pyarrow as pa

# From the `dtype.kind` of predictions to their type in Spark.
_PREDICTION_TYPES = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double"}
_FACE = "face"  # the field of a saved model that holds the face


class _Columns(
    HasFeaturesCol,  # type: ignore[misc]  # of type Any, as pyspark may be missing where types are checked
    HasInputCols,  # type: ignore[misc]
    HasLabelCol,  # type: ignore[misc]
    HasPredictionCol,  # type: ignore[misc]
    HasProbabilityCol,  # type: ignore[misc]
    HasWeightCol,  # type: ignore[misc]
):
    """The names of the columns that a stage reads and writes."""

    def setFeaturesCol(self, value: str) -> Any:  # noqa: N802 (names of pyspark.ml)
        """Set the column of vectors to learn from."""
        return self._set(featuresCol=value)

    def setInputCols(self, value: list[str]) -> Any:  # noqa: N802
        """Set plain columns to learn from, instead of one column of vectors."""
        return self._set(inputCols=value)

    def setLabelCol(self, value: str) -> Any:  # noqa: N802
        """Set the column of labels or targets."""
        return self._set(labelCol=value)

    def setWeightCol(self, value: str) -> Any:  # noqa: N802
        """Set the column of weights; by default every row weighs 1."""
        return self._set(weightCol=value)

    def setPredictionCol(self, value: str) -> Any:  # noqa: N802
        """Set the column for predictions."""
        return self._set(predictionCol=value)

    def setProbabilityCol(self, value: str) -> Any:  # noqa: N802
        """Set the column for probabilities of the classes; it is written if the face has them."""
        return self._set(probabilityCol=value)

    def list_inputs(self) -> list[str]:
        """Return the names of the columns to learn and to predict from."""
        return list(self.getInputCols()) if self.isDefined("inputCols") else [self.getFeaturesCol()]


class FaceEstimator(Estimator, _Columns):  # type: ignore[misc]  # pyspark may be missing where types are checked
    """Fits a face of tamis to a data frame of Spark.

    Parameters
    ----------
    face : a face that predicts, such as `tamis.GaussianNB()`; it is copied
    featuresCol, labelCol, weightCol, predictionCol, probabilityCol : as in `pyspark.ml`
    inputCols : plain columns to learn from, instead of the column of vectors `featuresCol`
    """

    def __init__(
        self,
        face: Any,
        *,
        featuresCol: str = "features",
        inputCols: list[str] | None = None,
        labelCol: str = "label",
        weightCol: str | None = None,
        predictionCol: str = "prediction",
        probabilityCol: str = "probability",
    ) -> None:
        super().__init__()
        if not hasattr(face, "learn_shards") or not hasattr(face, "predict"):
            raise TypeError(
                f"got a {type(face).__name__}, expected a face of tamis that predicts, such as "
                "tamis.GaussianNB()"
            )
        self.face = face
        columns = {
            "featuresCol": featuresCol,
            "inputCols": inputCols,
            "labelCol": labelCol,
            "weightCol": weightCol,
            "predictionCol": predictionCol,
            "probabilityCol": probabilityCol,
        }
        self._set(**{name: value for name, value in columns.items() if value is not None})

    def _fit(self, dataset: Any) -> "FaceModel":
        face = copy.deepcopy(self.face)
        inputs, roles = self.list_inputs(), {}
        # Models without labels (mixtures) have a default for `y`; all others need the label column.
        if signature(face.fit).parameters["y"].default is signature(face.fit).empty:
            roles["y"] = self.getLabelCol()
        if self.isDefined("weightCol"):
            roles["sample_weight"] = self.getWeightCol()
        known = set(dataset.columns)
        for name in (*inputs, *roles.values()):
            if name not in known:
                raise ValueError(
                    f"the frame has no column {name!r}, expected one of {', '.join(dataset.columns)}: set "
                    "featuresCol, inputCols, labelCol or weightCol"
                )
        names = dict.fromkeys((*inputs, *roles.values()))
        face.fit(dataset.select(*(dataset[quote(name)] for name in names)), **roles)
        model = FaceModel(face)
        return self._copyValues(model)  # type: ignore[no-any-return]  # the model gets the columns' names


class FaceModel(Model, _Columns, MLWritable, MLReadable):  # type: ignore[misc]  # pyspark may be missing
    """A face that was fitted: `transform` adds its predictions and probabilities to a data frame."""

    def __init__(self, face: Any = None) -> None:
        super().__init__()
        self.face = face

    def _transform(self, dataset: Any) -> Any:
        inputs = self.list_inputs()
        # This explains only errors of the query. Rows are predicted later, when the returned frame is read.
        with explain_failures("nothing was predicted"):
            types = read_types(dataset)
            read = ReadRows(tuple(inputs), {}, any(is_vector_type(types.get(name, "")) for name in inputs))
            classes = getattr(self.face, "classes_", None)
            if classes is not None:
                type_ = _PREDICTION_TYPES.get(classes.dtype.kind, "string")
            else:  # the index of a component of a mixture, or the prediction of a regression
                type_ = "bigint" if hasattr(self.face, "predict_proba") else "double"
            predict = functions.arrow_udf(
                _make_function(_Predict(self.face, read)), f"prediction {type_}, probability array<double>"
            )
            rows = functions.struct(*(dataset[quote(name)] for name in inputs))
            answers = predict(rows)
            frame = dataset.withColumn(self.getPredictionCol(), answers["prediction"])
            if hasattr(self.face, "predict_proba"):
                frame = frame.withColumn(self.getProbabilityCol(), array_to_vector(answers["probability"]))
            return frame

    def write(self) -> Any:
        """Return the writer of this model."""
        return _Writer(self)

    @classmethod
    def read(cls) -> Any:
        """Return the reader of saved models."""
        return _Reader()


class _Predict:
    """A function from a StructArray of Arrow, the rows, to a StructArray of predictions and probabilities."""

    def __init__(self, face: Any, read: ReadRows) -> None:
        self.face, self.read = face, read

    def __call__(self, rows: Any) -> Any:
        table = pa.table(rows.flatten(), names=[rows.type.field(k).name for k in range(rows.type.num_fields)])
        X = self.read(table).X
        if not len(rows):
            return pa.array(
                [], pa.struct([("prediction", pa.null()), ("probability", pa.list_(pa.float64()))])
            )
        if not hasattr(self.face, "predict_proba"):
            lists: Any = pa.nulls(len(rows), pa.list_(pa.float64()))
            return pa.StructArray.from_arrays(
                [_to_arrow(self.face.predict(X)), lists], ["prediction", "probability"]
            )
        probabilities = np.ascontiguousarray(self.face.predict_proba(X))
        best = probabilities.argmax(axis=1)
        classes = getattr(self.face, "classes_", None)
        answers = best if classes is None else np.asarray(classes)[best]
        offsets: Any = pa.array(np.arange(0, probabilities.size + 1, probabilities.shape[1], dtype=np.int32))
        cells: Any = pa.array(probabilities.ravel())
        lists = pa.ListArray.from_arrays(offsets, cells)
        return pa.StructArray.from_arrays([_to_arrow(answers), lists], ["prediction", "probability"])


def _make_function(predict: _Predict) -> Any:
    """Wrap `predict` in a function whose annotations tell Spark that it takes and returns Arrow arrays."""

    def predict_rows(rows: Any) -> Any:
        return predict(rows)

    predict_rows.__annotations__ = {"rows": pa.Array, "return": pa.Array}
    return predict_rows


def _to_arrow(answers: Any) -> Any:
    """Convert predictions to an Arrow array; labels that are neither numbers nor flags become text."""
    values = np.asarray(answers)
    return pa.array(values if values.dtype.kind in "biuf" else [str(value) for value in values])


class _Writer(MLWriter):  # type: ignore[misc]
    def __init__(self, model: FaceModel) -> None:
        super().__init__()
        self.model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802
        content = b64encode(messages.encode(self.model.face)).decode()
        DefaultParamsWriter.saveMetadata(self.model, path, self.sparkSession, {_FACE: content})


class _Reader(MLReader):  # type: ignore[misc]
    def load(self, path: str) -> FaceModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        if _FACE not in metadata:
            raise ValueError(f"{path} holds no face of tamis, expected a FaceModel that was saved")
        model = FaceModel(messages.decode(b64decode(metadata[_FACE])))
        # Each stage has a random name, its uid. The readers of pyspark.ml restore it in this way.
        model._resetUid(metadata["uid"])  # noqa: SLF001
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
